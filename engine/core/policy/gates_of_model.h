#pragma once
// The gates of a model as policies ask about them. Whoever knows these says what a policy will be on the model before it
// runs: the engine, and the window, whose controls and previews would show another method's defaults otherwise.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/core/policy/policy.h"

namespace kvscope {

struct GateOfModel {
  std::string kind;                    // as in gate_file.h
  std::optional<GateNumbers> numbers;  // none of a scorer that no file describes
  int delay = -1;                      // the score of token t is there at query t + delay; -1: not known
};

struct GatesOfModel {
  std::vector<GateOfModel> scorers;  // in the order in which they are asked
  std::optional<GateNumbers> heads;  // of a head directory

  /// The first of one of these kinds, of any if none is named; null if there is none.
  const GateOfModel* scorer(std::span<const std::string_view> kinds) const;
};

/// The policy of a run on the model, as it is recorded: with the share of global heads that comes of it, and what nobody
/// wrote from the gates that it reads (with_gates()). Throws Error (usage) as these do.
PolicySpec policy_on(const PolicySpec& asked, const HeadsOfModel& shape, const GatesOfModel& gates);

/// What the gates say of a parameter that somebody wrote, so that it may stand beside; nothing where nobody did, or they
/// say nothing of it.
std::optional<double> own_number(const PolicySpec& asked, std::string_view parameter, const GatesOfModel& gates);

/// policy_on() where only a run is at hand: what nobody wrote is as the run had it, if its policy has the same name.
PolicySpec policy_after(const PolicySpec& asked, const PolicySpec& of_run);

}  // namespace kvscope
