#pragma once
// Names and values below each other, with a column for B where there is one. Items "inspector.<id>", "inspector.<id>.b" and
// "inspector.<id>.name".

#include <optional>
#include <string>

#include "views/frame/view_services.h"
#include "views/widgets/chrome.h"

namespace kvscope::views {

class InspectorRows {
 public:
  /// Small where words of two columns would be broken in the common size. Nothing may be drawn into one that is false.
  InspectorRows(const ViewServices& services, const char* name, bool with_b = false);
  ~InspectorRows();
  InspectorRows(const InspectorRows&) = delete;
  InspectorRows& operator=(const InspectorRows&) = delete;
  explicit operator bool() const { return open_; }

  /// `of_b`: B's value, if there is one.
  void add(const std::string& name, const std::string& value, const std::optional<std::string>& of_b = std::nullopt);
  /// The same where the name is not the item's.
  void add(const std::string& name, const std::string& id, const std::string& value,
           const std::optional<std::string>& of_b);

 private:
  void add_value(const std::string& item, const std::string& value);

  const ViewServices& services_;
  std::optional<FontScope> small_;
  bool open_;
};

}  // namespace kvscope::views
