#pragma once
// tokenizer.json as it streams by. Included by tokenizer_json.cpp alone.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/files/tokenizer/tokenizer_json.h"
#include "engine/core/support/json_tree.h"
#include "engine/core/support/refuse.h"

namespace kvscope {

/// model.vocab and model.merges go straight into vectors (a tree of them costs ten times the file); the rest is a tree.
class TokenizerEvents : public JsonEvents {
 public:
  TokenizerEvents(const std::string& file, TokenizerJson& out) : file_(file), out_(out) {}
  void null() override { place_ == Place::tree ? tree_.null() : refuse("null"); }
  void boolean(bool value) override { place_ == Place::tree ? tree_.boolean(value) : refuse(value ? "true" : "false"); }
  void negative(std::int64_t value) override {
    place_ == Place::tree ? tree_.negative(value) : refuse(std::to_string(value));
  }
  void real(double value, const std::string& digits) override {
    place_ == Place::tree ? tree_.real(value, digits) : refuse(digits);
  }
  void natural(std::uint64_t value) override {
    if (place_ == Place::tree) return tree_.natural(value);
    if (place_ != Place::vocab || value > static_cast<std::uint64_t>(kMaxTokenId)) refuse(std::to_string(value));
    out_.vocab.emplace_back(std::move(key_), static_cast<std::int32_t>(value));
  }
  void text(std::string& value) override {
    if (place_ == Place::tree) {
      tree_.text(value);
    } else if (place_ == Place::merges) {
      add_line(value);
    } else if (place_ == Place::pair && pair_.size() < 2) {
      pair_.push_back(std::move(value));
    } else {
      refuse(in_quotes(value));
    }
  }
  void begin_object() override {
    if (place_ != Place::tree) refuse("an object");
    if (in_model_ && depth_ == 2 && key_ == "vocab") {
      place_ = Place::vocab;
      has_vocab = true;
    } else {
      in_model_ = in_model_ || (depth_ == 1 && key_ == "model");
      tree_.begin_object();
    }
    ++depth_;
  }
  void end_object() override {
    --depth_;
    if (place_ == Place::vocab) {
      place_ = Place::tree;
      tree_.null();  // the key is in the tree already
      return;
    }
    if (depth_ == 1) in_model_ = false;
    tree_.end_object();
  }
  void key(std::string& name) override {
    key_ = name;
    if (place_ == Place::tree) tree_.key(name);
  }
  void begin_array() override {
    if (place_ == Place::merges) {
      pair_.clear();
      place_ = Place::pair;
    } else if (place_ != Place::tree) {
      refuse("an array");
    } else if (in_model_ && depth_ == 2 && key_ == "merges") {
      place_ = Place::merges;
      has_merges = true;
    } else {
      tree_.begin_array();
      ++depth_;
    }
  }
  void end_array() override {
    if (place_ == Place::pair) {
      place_ = Place::merges;
      if (pair_.size() != 2) refuse(std::to_string(pair_.size()) + " parts");
      add_merge(std::move(pair_[0]), std::move(pair_[1]), true);
    } else if (place_ == Place::merges) {
      place_ = Place::tree;
      tree_.null();
    } else {
      --depth_;
      tree_.end_array();
    }
  }
  nlohmann::json take() { return tree_.take(); }
  bool has_vocab = false, has_merges = false;

 private:
  static constexpr std::size_t kMaxMerges = 1u << 22;
  enum class Place { tree, vocab, merges, pair };

  [[noreturn]] void refuse(std::string found) const {
    const bool in_vocab = place_ == Place::vocab;
    kvscope::refuse(file_, in_vocab ? "model.vocab." + key_ : "model.merges[" + std::to_string(n_merges_) + "]",
                    std::move(found),
                    in_vocab ? "an id from 0 to " + std::to_string(kMaxTokenId) : "\"a b\" or [\"a\", \"b\"]");
  }
  void add_line(const std::string& line) {
    if (n_merges_ == 0 && line.starts_with("#version")) return;  // the first line of a merges.txt
    const std::size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos) refuse(in_quotes(line));
    add_merge(line.substr(0, space), line.substr(space + 1), false);
  }
  void add_merge(std::string left, std::string right, bool as_pair) {
    if (left.empty() || right.empty()) refuse("an empty part");
    if (pairs_.value_or(as_pair) != as_pair) refuse("lines and pairs mixed");
    if (n_merges_ == kMaxMerges) refuse("more than " + std::to_string(kMaxMerges) + " merges");
    pairs_ = as_pair;
    ++n_merges_;
    out_.merges.emplace_back(std::move(left), std::move(right));
  }

  const std::string& file_;
  TokenizerJson& out_;
  JsonTree tree_;
  Place place_ = Place::tree;
  int depth_ = 0;          // open containers of the tree
  bool in_model_ = false;  // inside the top level's "model"
  std::string key_;
  std::vector<std::string> pair_;
  std::size_t n_merges_ = 0;
  std::optional<bool> pairs_;
};

}  // namespace kvscope
