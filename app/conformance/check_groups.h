#pragma once
// The groups of checks, one file each, in the order in which they run.

#include "app/conformance/checks.h"
#include "app/conformance/subject.h"

namespace kvscope::app::conformance {

void check_greeting(Checks& checks, Subject& subject);
void check_load(Checks& checks, Subject& subject);
/// Prompts as text, as ids and as a chat, a given answer, stop texts.
void check_runs(Checks& checks, Subject& subject);
/// The same seed gives the same answer.
void check_same_answer(Checks& checks, Subject& subject);
void check_cancel(Checks& checks, Subject& subject);
/// Of an engine that takes several runs at once.
void check_together(Checks& checks, Subject& subject);
void check_errors(Checks& checks, Subject& subject);
/// Lifetimes against the rule, for every policy whose rule KVScope has; then other policies, and changes in mid-run.
void check_lifetimes(Checks& checks, Subject& subject);
void check_score(Checks& checks, Subject& subject);
void check_oracle(Checks& checks, Subject& subject);
void check_attention(Checks& checks, Subject& subject);
/// What is declared is answered, what is not is refused.
void check_services(Checks& checks, Subject& subject);

}  // namespace kvscope::app::conformance
