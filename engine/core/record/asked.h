#pragma once
// What a run was asked for: the request, where its tokens come from, and the gates that were loaded for it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/record/run_request.h"

namespace kvscope {

/// Where the tokens of a run come from.
struct RunOrigin {
  /// drawn: from a prompt. replay: all tokens of another run, each forced. fork: the first tokens of another run are its
  /// prompt. resumed: what an engine that ended left of a run, and the rest drawn.
  enum class Kind : std::uint8_t { drawn, replay, fork, resumed };
  Kind kind = Kind::drawn;
  std::string of;     // Asked::key of the other run; empty: none, or not known
  std::string title;  // what that run was called when this one began: "KVpop 25 %, window 32"
  int q = -1;         // of a fork, the last query whose token is the other run's; of a resumed run, of what was left
  bool operator==(const RunOrigin&) const = default;
};
std::string_view to_string(RunOrigin::Kind kind);

/// A gate or adapter that was given with a run.
struct GateRef {
  std::string given;  // as `--gate` takes it, a path or a name; empty: it lies beside the model's weights
  std::string name;   // "wgkv-0.01"; empty: not known, as of a path on another machine
  std::string hash;   // hex of FNV-1a 64 over a gate's numbers, an adapter's files; empty: not known
  bool operator==(const GateRef&) const = default;
};

struct Asked {
  /// 16 hex digits that tell this run from every other; what RunOrigin::of refers to.
  std::string key;
  RunRequest request;
  /// The prompt's text gives the request's prompt_ids, if there are some: a command may name the text instead.
  bool by_text = true;
  RunOrigin origin;
  std::vector<GateRef> gates;
  /// The command that started the engine; empty: KVScope's own. No trace has it: it may name a machine, and what a stranger's
  /// file says is not to be run.
  std::string engine = {};
};

/// FNV-1a 64 over what tells one run from another: the request, the model's weights and the moment. Two runs that agree in
/// all of these are the same run.
std::string key_of(const Asked& asked, std::string_view weights_hash, std::string_view started_utc);

}  // namespace kvscope
