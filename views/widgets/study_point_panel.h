#pragma once
// The selected point of a study: every column of its row, what its run would be made of, and the button that opens it.

#include "views/frame/view_services.h"
#include "views/frame/view_state.h"

namespace kvscope::views {

class StudyPointPanel {
 public:
  explicit StudyPointPanel(const ViewServices& services) : services_(services) {}
  /// Fills the current region.
  void draw(ViewContext& context);

 private:
  void draw_run(ViewContext& context);
  void draw_piece(StudyLook& look, const StudyTable& study, int n_pieces);
  void draw_values(const StudyTable& study, int row);
  void say(const char* item, Colour colour, const std::string& text);

  const ViewServices& services_;
};

}  // namespace kvscope::views
