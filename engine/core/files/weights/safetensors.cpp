#include "engine/core/files/weights/safetensors.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/core/files/weights/safetensors_header.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"

namespace kvscope {
namespace {

constexpr std::uint64_t kLengthBytes = 8, kMaxHeader = 100'000'000;

[[noreturn]] void fail(const std::filesystem::path& path, std::string found, std::string expected,
                       std::string hint = "") {
  throw Error(
      {.file = path.string(), .found = std::move(found), .expected = std::move(expected), .hint = std::move(hint)});
}

/// All of `out` from `offset`, or an Error: the file may have been cut since it was opened.
void read_exactly(int fd, std::uint64_t offset, std::span<std::byte> out, const std::filesystem::path& path) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), std::min(out.size(), std::size_t{1} << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, path, "cannot be read");
    if (n == 0) fail(path, "the file ended at byte " + std::to_string(offset), "the size it had when it was opened");
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

/// A file that cannot be safetensors often is something well known: say what, before saying what its bytes are not.
void refuse_foreign(int fd, std::uint64_t size, const std::filesystem::path& path) {
  std::string head(std::min<std::uint64_t>(size, 512), '\0');
  read_exactly(fd, 0, std::as_writable_bytes(std::span(head)), path);
  if (const auto foreign = recognise_foreign(head)) fail(path, foreign->found + ", not weights", "", foreign->hint);
}

std::uint64_t header_length(int fd, std::uint64_t size, const std::filesystem::path& path) {
  if (size == 0) fail(path, "empty file", "safetensors", "the download did not start; download it again");
  if (size < kLengthBytes) {
    refuse_foreign(fd, size, path);
    fail(path, std::to_string(size) + " bytes", "a header length of 8 bytes");
  }
  unsigned char bytes[kLengthBytes];
  read_exactly(fd, 0, std::as_writable_bytes(std::span(bytes)), path);
  std::uint64_t n = 0, swapped = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    n |= std::uint64_t{bytes[i]} << (8 * i);
    swapped = swapped << 8 | bytes[i];
  }
  // n is compared before anything is added to it or allocated for it.
  if (n <= kMaxHeader && n <= size - kLengthBytes) return n;
  refuse_foreign(fd, size, path);
  const std::string found = "header length " + std::to_string(n);
  if (swapped <= kMaxHeader && swapped <= size - kLengthBytes) fail(path, found + " (big-endian)", "little-endian");
  if (n > kMaxHeader) fail(path, found, "at most " + std::to_string(kMaxHeader));
  fail(path, found + " passes the end of the file", "at most " + std::to_string(size - kLengthBytes),
       "the file was cut short; download it again");
}

std::string read_header(int fd, std::uint64_t size, const std::filesystem::path& path) {
  const std::uint64_t n = header_length(fd, size, path);
  if (n == 0) fail(path, "header of 0 bytes", "a JSON object");
  std::string header(n, '\0');
  read_exactly(fd, kLengthBytes, std::as_writable_bytes(std::span(header)), path);
  // Leading white space occurs: some writers align the header to a page.
  const std::size_t first = header.find_first_not_of(" \t\r\n");
  if (first == header.npos || header[first] != '{') {
    refuse_foreign(fd, size, path);
    const bool bom = header.starts_with("\xEF\xBB\xBF");
    const std::string begins =
        first == header.npos ? "white space only" : escape_for_terminal(header.substr(first, 16), 40);
    fail(path, bom ? "header begins with a byte order mark" : "header begins with " + begins, "a JSON object");
  }
  return header;
}

}  // namespace

std::int64_t TensorEntry::n_elements() const {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;  // cannot overflow: checked when the header was read
  return n;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.path_ = path;
  FileHandle handle = open_regular_file(path, file.size_);
  file.header_ = read_header(handle.get(), file.size_, path);
  SafetensorsHeader header = parse_safetensors_header(file.header_, path.string());
  const std::uint64_t data_start = kLengthBytes + file.header_.size();
  check_tiling(header.tensors, file.size_ - data_start, path.string());
  for (auto& [name, entry] : header.tensors) {
    entry.begin += data_start;
    entry.end += data_start;
  }
  file.tensors_ = std::move(header.tensors);
  file.metadata_ = std::move(header.metadata);
  file.fd_ = handle.release();
  return file;
}

SafetensorsFile::~SafetensorsFile() {
  if (fd_ >= 0) ::close(fd_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      tensors_(std::move(other.tensors_)),
      metadata_(std::move(other.metadata_)),
      header_(std::move(other.header_)),
      size_(other.size_) {}

const std::filesystem::path& SafetensorsFile::path() const { return path_; }
const std::map<std::string, TensorEntry>& SafetensorsFile::tensors() const { return tensors_; }
const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return metadata_; }
const std::string& SafetensorsFile::header() const { return header_; }
std::uint64_t SafetensorsFile::file_size() const { return size_; }

void SafetensorsFile::read(const TensorEntry& entry, std::span<std::byte> out) const {
  if (out.size() != entry.end - entry.begin) {
    throw Error({.code = ExitCode::internal,
                 .file = path_.string(),
                 .found = "a buffer of " + std::to_string(out.size()) + " bytes",
                 .expected = std::to_string(entry.end - entry.begin)});
  }
  read_exactly(fd_, entry.begin, out, path_);
}

void SafetensorsFile::read_part(const TensorEntry& entry, std::uint64_t offset, std::span<std::byte> out) const {
  const std::uint64_t bytes = entry.end - entry.begin;
  if (offset > bytes || out.size() > bytes - offset) {
    throw Error({.code = ExitCode::internal,
                 .file = path_.string(),
                 .found = std::to_string(out.size()) + " bytes from byte " + std::to_string(offset) + " on",
                 .expected = "a part of a tensor of " + std::to_string(bytes)});
  }
  read_exactly(fd_, entry.begin + offset, out, path_);
}

}  // namespace kvscope
