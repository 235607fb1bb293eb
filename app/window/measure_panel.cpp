// What is measured of a run besides its lifetimes and its oracle.

#include <imgui.h>

#include "app/window/panel.h"
#include "engine/core/study/measure/output_error.h"

namespace kvscope::app {

void draw_measures(Panel& panel) {
  if (!fold(panel, "Measure", "measure", false)) return;
  const Parameters& next = panel.session.parameters();
  std::string why_not = protocol::why_no_service(panel.session.engine().offer(), "output_error");
  if (why_not.empty()) why_not = why_not_measurable(next.policy);
  bool on = next.output_error && why_not.empty();
  ImGui::BeginDisabled(!why_not.empty());
  if (ImGui::Checkbox("Output error", &on)) panel.run("run.output_error", {{"on", on}});
  panel.item("measure.output_error");
  ImGui::EndDisabled();
  tooltip(panel, !why_not.empty()
                     ? why_not
                     : "Measure how eviction changes the attention output, in one more pass over all tokens "
                       "after the last one. For Quest, also the attention mass of its reads.");
}

}  // namespace kvscope::app
