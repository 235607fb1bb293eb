#pragma once
// The parameters of a policy but its budget: a control each, made from its declaration.

namespace kvscope::app {

struct Panel;

/// As many decimals as the value has, at least `least`; where it has no end of them, four significant digits, as lists
/// have them. What runs has all.
int shown_decimals(double value, int least);
/// The same of a share in per cent, at most 2: one that comes of whole tokens, 45 of 47, has no end of them.
int share_decimals(double share);

/// Shows what will run: a parameter that is not set has the gate's number, and next to one that is set is what the
/// gate says of it. A parameter that the others make meaningless is disabled.
void draw_policy_parameters(Panel& panel);

}  // namespace kvscope::app
