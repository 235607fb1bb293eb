#pragma once
// Policies that an engine declares, as policies like KVScope's own.
//
// The registry only grows: a PolicySpec points at the declaration that its text was parsed against, for as long as the
// program runs. The same declaration twice is one entry. Another one under the same name, of a newer engine, say, is
// another entry: runs that are open, and runs of a trace, keep the one they point at, and only texts that are read from
// then on mean the one that was offered last. Safe from several threads.

#include <span>

#include "engine/core/policy/declaration.h"
#include "engine/core/policy/policy.h"

namespace kvscope {

struct DeclaredPolicy {
  explicit DeclaredPolicy(Declaration declared);
  DeclaredPolicy(const DeclaredPolicy&) = delete;
  DeclaredPolicy& operator=(const DeclaredPolicy&) = delete;

  const Declaration declaration;
  Policy policy;  // whose views are of the strings of `declaration`

 private:
  std::vector<std::vector<std::string_view>> choices_;
  std::vector<ParameterInfo> parameters_;
};

/// The entry for it. Its name means this one from then on, unless it means another one already: what a trace declares does
/// not take the place of what an engine offers. Throws Error (resource) when there are thousands.
const DeclaredPolicy* declare_policy(Declaration declaration);
/// From now on their names mean these.
void offer_policies(std::span<const DeclaredPolicy* const> policies);
/// What the name means; null: nothing.
const DeclaredPolicy* find_declared(std::string_view name);

/// {"policy": text as it was written}, with the "declaration" where an engine has one: read again without that engine.
void put_policy(nlohmann::json& object, const PolicySpec& policy);
/// Throws Error.
PolicySpec take_policy(const nlohmann::json& object);

}  // namespace kvscope
