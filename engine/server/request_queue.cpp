#include "engine/server/request_queue.h"

#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

std::string type_of(const nlohmann::json& request) {
  const auto found = request.find("type");
  return found != request.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// What steers a run has no answer of its own: one that is malformed is passed over.
template <typename Steering>
std::optional<Steering> steering_of(const nlohmann::json& request) {
  try {
    return std::get<Steering>(protocol::request_from_json(request));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

RequestQueue::RequestQueue(Channel& channel) : channel_(channel), reader_([this] { read_all(); }) {}

RequestQueue::~RequestQueue() { reader_.join(); }

void RequestQueue::read_all() {
  try {
    while (std::optional<nlohmann::json> request = channel_.read()) {
      const std::string type = type_of(*request);
      if (type == "quit") break;
      const std::lock_guard lock(mutex_);
      if (type == "cancel") {
        if (const auto cancel = steering_of<protocol::CancelRequest>(*request)) steer(*cancel);
      } else if (type == "policy") {
        if (const auto policy = steering_of<protocol::PolicyRequest>(*request)) steer(*policy);
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

void RequestQueue::steer(const protocol::CancelRequest& request) {
  if (running_ == request.target) cancelled_ = true;
  for (const auto& waiting : waiting_) {
    if (protocol::message_id(waiting) == request.target) cancelled_ids_.insert(request.target);
  }
}

void RequestQueue::steer(const protocol::PolicyRequest& request) {
  if (running_ == request.target) policies_.push_back(request.policy);
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
  running_ = protocol::message_id(request);
  cancelled_ = cancelled_ids_.erase(*running_) > 0;
  return request;
}

}  // namespace kvscope::engine
