#include "engine/server/request_queue.h"

namespace kvscope::engine {
namespace {

std::int64_t integer_of(const nlohmann::json& request, const char* key) {
  const auto found = request.find(key);
  return found != request.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

std::string type_of(const nlohmann::json& request) {
  const auto found = request.find("type");
  return found != request.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::int64_t request_id(const nlohmann::json& request) { return integer_of(request, "id"); }

RequestQueue::RequestQueue(Channel& channel) : channel_(channel), reader_([this] { read_all(); }) {}

RequestQueue::~RequestQueue() { reader_.join(); }

void RequestQueue::read_all() {
  try {
    while (std::optional<nlohmann::json> request = channel_.read()) {
      const std::string type = type_of(*request);
      if (type == "quit") break;
      const std::lock_guard lock(mutex_);
      if (type == "cancel") {
        const std::int64_t target = integer_of(*request, "target");
        if (running_ == target) cancelled_ = true;
        for (const auto& waiting : waiting_) {
          if (request_id(waiting) == target) cancelled_ids_.insert(target);
        }
      } else if (type == "policy") {
        const auto policy = request->find("policy");
        const bool is_text = policy != request->end() && policy->is_string();
        if (is_text && running_ == integer_of(*request, "target")) policies_.push_back(policy->get<std::string>());
      } else {
        waiting_.push_back(std::move(*request));
        changed_.notify_one();
      }
    }
    end(nullptr);
  } catch (...) {
    end(std::current_exception());
  }
}

void RequestQueue::end(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  error_ = error;
  cancelled_ = true;
  changed_.notify_one();
}

std::optional<std::string> RequestQueue::take_policy() {
  const std::lock_guard lock(mutex_);
  if (policies_.empty()) return std::nullopt;
  std::string policy = std::move(policies_.front());
  policies_.pop_front();
  return policy;
}

std::optional<nlohmann::json> RequestQueue::next() {
  std::unique_lock lock(mutex_);
  running_.reset();
  policies_.clear();
  changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (ended_) return std::nullopt;
  nlohmann::json request = std::move(waiting_.front());
  waiting_.pop_front();
  running_ = request_id(request);
  cancelled_ = cancelled_ids_.erase(*running_) > 0;
  return request;
}

}  // namespace kvscope::engine
