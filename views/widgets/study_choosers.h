#pragma once
// Which study, which columns along its axes, which of its rows.

#include <memory>
#include <string>
#include <vector>

#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

class StudyChoosers {
 public:
  explicit StudyChoosers(const ViewServices& services) : services_(services) {}
  void draw(ViewContext& context);

 private:
  void draw_list(ViewContext& context);
  void draw_axes(ViewContext& context, const OpenStudy& study);
  void choose_smooth(StudyLook& look);
  void draw_switches(StudyLook& look, const StudyAxes& axes, bool bars);
  /// One of `columns` by its title, "none" first if it may be; the definition is the tooltip.
  void choose_column(const char* item, const char* label, const StudyTable& study,
                     const std::vector<std::string>& columns, bool may_be_none, const std::string& now,
                     std::string& chosen);
  void choose_rows(const StudyAxes& axes, StudyLook& look);
  /// A name before the control that comes next, on the line where both fit.
  void label(const char* text, bool first = false);

  const ViewServices& services_;
  std::shared_ptr<const StudyTable> known_;
  StudyChoices choices_;  // of known_
  bool stacked_ = false;  // one below the other, where there is no room beside the picture
};

}  // namespace kvscope::views
