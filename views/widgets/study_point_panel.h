#pragma once
// The selected point of a study: every column of its row, what its run would be made of, and the button that opens it. Of a
// training, whose steps have no run, the newest rows while none is selected.

#include "views/frame/view_services.h"
#include "views/selection/view_state.h"

namespace kvscope::views {

class StudyPointPanel {
 public:
  explicit StudyPointPanel(const ViewServices& services) : services_(services) {}
  /// Fills the current region.
  void draw(ViewContext& context);

 private:
  void draw_newest(const StudyTable& study, const StudyLook& look);
  void draw_run(ViewContext& context);
  void draw_piece(StudyLook& look, const StudyTable& study, int n_pieces);
  void draw_values(const StudyTable& study, int row);
  void say(const char* item, Colour colour, const std::string& text);

  const ViewServices& services_;
};

}  // namespace kvscope::views
