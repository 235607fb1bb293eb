#pragma once
// A and B as a table: what was asked of each, where that differs, and what came of it.

#include <optional>
#include <string>

#include "engine/core/study/measure/comparison_table.h"
#include "views/frame/view.h"
#include "views/frame/view_services.h"
#include "views/widgets/debounced.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class ComparisonView final : public View {
 public:
  explicit ComparisonView(const ViewServices& services) : services_(services), debounced_(services.wake) {}
  const char* kind() const override { return "comparison"; }
  const char* title() const override { return "A and B"; }
  Place place() const override { return Place::main; }
  void draw(ViewContext& context) override;

 private:
  struct Key {
    RunKey a, b;
    std::int32_t q;
    bool operator==(const Key&) const = default;
  };
  /// Takes the newest table that is known; counting one looks at every token of every head.
  void update(const ViewContext& context);
  void say_alike();
  void draw_rows(const char* heading, const std::vector<ComparisonRow>& rows);
  void draw_name(const ComparisonRow& row) const;
  void draw_cells(const ComparisonRow& row) const;
  /// Where it is, which is at its name.
  void tell(const ComparisonRow& row, const ItemRect& where) const;

  ViewServices services_;
  Debounced<Key, ComparisonTable> debounced_;
  std::optional<ComparisonTable> table_;  // what was asked in the words of the panel
};

}  // namespace kvscope::views
