#pragma once
// What a study is as bytes: for its checksum, and between the guarded reader and its child.

#include <cstdint>
#include <string>

#include "engine/core/study/table/study_table.h"
#include "engine/core/trace/trace_message.h"

namespace kvscope::trace {

inline constexpr char kStudyFormat[] = "kvscope-study";
inline constexpr int kStudyVersion = 1;
inline constexpr std::uint64_t kMostStudyBytes = std::uint64_t{256} << 20;  // of a file, and of what is in it
inline constexpr int kMostStudyNames = 4096;                                // of columns, and of arrays

void put_study(MessageWriter& out, const StudyTable& table);
/// The inverse. Throws BadMessage; what is in the table is not checked.
StudyTable get_study(MessageReader& in);

std::uint64_t study_checksum(const StudyTable& table);

/// What a file that is none says for itself: "not an HDF5 file, or a damaged one".
struct NoStudy {
  std::string found;
};

/// In this process. Throws NoStudy, and Error for a study that is damaged.
StudyTable read_study_here(const std::string& path);

}  // namespace kvscope::trace
