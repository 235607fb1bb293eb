#include "engine/jobs/train/data_loader.h"

#include <algorithm>

namespace kvscope::engine {

Batch make_batch(const SequenceSource& source, std::uint64_t first, int size) {
  Batch batch{.size = size, .row_tokens = source.length() + 1};
  const auto n_tokens = static_cast<std::size_t>(size) * batch.row_tokens;
  batch.ids.reserve(n_tokens);
  batch.roles.reserve(n_tokens);
  for (int i = 0; i < size; ++i) {
    TaskSequence sequence = source.make(first + static_cast<std::uint64_t>(i));
    batch.ids.insert(batch.ids.end(), sequence.ids.begin(), sequence.ids.end());
    for (const auto role : sequence.roles) batch.roles.push_back(static_cast<std::uint8_t>(role));
    batch.spans.push_back(std::move(sequence.spans));
  }
  return batch;
}

DataLoader::DataLoader(const SequenceSource& source, int batch_size, int n_threads, std::int64_t first, int part,
                       int n_parts)
    : source_(source),
      batch_size_(batch_size),
      part_size_(batch_size / n_parts),
      part_(part),
      ahead_(2 * n_threads + 2),
      next_made_(first),
      next_fetched_(first) {
  for (int i = 0; i < n_threads; ++i) threads_.emplace_back([this] { work(); });
}

DataLoader::~DataLoader() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void DataLoader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || next_made_ < next_fetched_ + ahead_; });
    if (stopping_) return;
    const auto index = next_made_++;
    lock.unlock();
    Batch batch;
    std::exception_ptr problem;
    try {
      batch = make_batch(source_, static_cast<std::uint64_t>(index) * batch_size_ + part_ * part_size_, part_size_);
    } catch (...) {
      problem = std::current_exception();
    }
    lock.lock();
    if (problem) problem_ = problem;
    ready_.emplace(index, std::move(batch));
    changed_.notify_all();
    if (problem) return;
  }
}

Batch DataLoader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return problem_ || ready_.contains(next_fetched_); });
  if (problem_) std::rethrow_exception(problem_);
  Batch batch = std::move(ready_.extract(next_fetched_).mapped());
  ++next_fetched_;
  lock.unlock();
  changed_.notify_all();
  return batch;
}

}  // namespace kvscope::engine
