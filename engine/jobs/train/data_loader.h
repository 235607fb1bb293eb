#pragma once
// Batches of sequences, made ahead of time by a few threads.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/jobs/tasks/sequence.h"

namespace kvscope::engine {

/// `size` sequences, row after row.
struct Batch {
  int size = 0;
  int row_tokens = 0;                          // length + 1
  std::vector<std::int32_t> ids;               // [size, row_tokens]
  std::vector<std::uint8_t> roles;             // [size, row_tokens], TokenRole
  std::vector<std::vector<AnswerSpan>> spans;  // [size]
};

/// Sequences first ... first + size - 1 of the source as one batch.
Batch make_batch(const SequenceSource& source, std::uint64_t first, int size);

/// Batch n holds sequences n * size ... (n + 1) * size - 1, so what training sees does not depend on the number of
/// threads. The source must outlive the loader; the destructor stops the threads.
class DataLoader {
 public:
  /// `first`: the batch that next() returns first. Of every batch the part `part` of n_parts, which divides batch_size.
  DataLoader(const SequenceSource& source, int batch_size, int n_threads, std::int64_t first = 0, int part = 0,
             int n_parts = 1);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;
  /// The next batch in order; waits if it is not ready. Rethrows what a thread met.
  Batch next();

 private:
  void work();

  const SequenceSource& source_;
  const int batch_size_, part_size_, part_;
  const std::int64_t ahead_;  // batches that may wait to be fetched
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Batch> ready_;
  std::int64_t next_made_;     // batch that the next free thread makes
  std::int64_t next_fetched_;  // batch that next() returns
  bool stopping_ = false;
  std::exception_ptr problem_;
  std::vector<std::jthread> threads_;  // last: joined before the rest is destroyed
};

}  // namespace kvscope::engine
