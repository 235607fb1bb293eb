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

template <typename Steer>
void RequestQueue::for_each_served(const Steer& steer) {
  for (const auto& served : served_)
    if (const auto request = served.lock()) steer(*request);
}

void RequestQueue::steer(const protocol::CancelRequest& cancel) {
  for_each_served([&](ServedRequest& request) {
    if (request.id == cancel.target) request.cancelled = true;
  });
  for (const auto& waiting : waiting_) {
    if (protocol::message_id(waiting) == cancel.target) cancelled_ids_.insert(cancel.target);
  }
}

void RequestQueue::steer(const protocol::PolicyRequest& policy) {
  for_each_served([&](ServedRequest& request) {
    if (request.id == policy.target) request.policies.push_back(policy.policy);
  });
}

void RequestQueue::end(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  error_ = error;
  for_each_served([](ServedRequest& request) { request.cancelled = true; });
  changed_.notify_one();
}

std::optional<std::string> RequestQueue::take_policy(ServedRequest& request) {
  const std::lock_guard lock(mutex_);
  if (request.policies.empty()) return std::nullopt;
  std::string policy = std::move(request.policies.front());
  request.policies.pop_front();
  return policy;
}

std::shared_ptr<ServedRequest> RequestQueue::serve_first() {
  auto request = std::make_shared<ServedRequest>();
  request->message = std::move(waiting_.front());
  waiting_.pop_front();
  request->type = type_of(request->message);
  request->id = protocol::message_id(request->message);
  request->cancelled = cancelled_ids_.erase(request->id) > 0;
  std::erase_if(served_, [](const auto& served) { return served.expired(); });  // each holds the memory of one request
  served_.push_back(request);
  return request;
}

std::shared_ptr<ServedRequest> RequestQueue::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return ended_ ? nullptr : serve_first();
}

std::shared_ptr<ServedRequest> RequestQueue::next_if(std::string_view type) {
  const std::lock_guard lock(mutex_);
  if (ended_ || waiting_.empty() || type_of(waiting_.front()) != type) return nullptr;
  return serve_first();
}

}  // namespace kvscope::engine
