#pragma once
// A tree of JSON from its events: for readers that keep some parts as a tree and take the large ones as they come.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/core/support/json_stream.h"

namespace kvscope {

class JsonTree : public JsonEvents {
 public:
  void null() override { add(nullptr); }
  void boolean(bool value) override { add(value); }
  void negative(std::int64_t value) override { add(value); }
  void natural(std::uint64_t value) override { add(value); }
  void real(double value, const std::string&) override { add(value); }
  void text(std::string& value) override { add(std::move(value)); }
  void begin_object() override { open_.push_back(add(nlohmann::json::object())); }
  void key(std::string& name) override { key_ = std::move(name); }
  void end_object() override { open_.pop_back(); }
  void begin_array() override { open_.push_back(add(nlohmann::json::array())); }
  void end_array() override { open_.pop_back(); }
  nlohmann::json take() { return std::move(root_); }

 private:
  /// To the innermost open container. Its address is stable while it is open: its parent grows only after it is closed.
  nlohmann::json* add(nlohmann::json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    nlohmann::json& parent = *open_.back();
    if (!parent.is_array()) return &(parent[key_] = std::move(value));
    parent.push_back(std::move(value));
    return &parent.back();
  }
  nlohmann::json root_;
  std::string key_;
  std::vector<nlohmann::json*> open_;
};

}  // namespace kvscope
