// APPNOTE.TXT 6.3 of PKWARE has the records; section numbers below are its.
#include "engine/core/files/gate/zip_reader.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <string_view>

#include "engine/core/support/read_budget.h"
#include "engine/core/support/refuse.h"

namespace kvscope {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                        kLocator64 = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;
/// Bytes of the directory and of the names in local headers, elements are entries.
constexpr ReadLimits kLimits{.max_bytes = 16u << 20, .max_depth = 1, .max_elements = 4096};
constexpr std::uint16_t kOnes16 = 0xffff;
constexpr std::uint32_t kOnes32 = 0xffffffff;

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<T>(static_cast<unsigned char>(bytes[at + i])) << (8 * i));
  }
  return value;
}
std::uint16_t u16(std::string_view bytes, std::size_t at) { return number_at<std::uint16_t>(bytes, at); }
std::uint32_t u32(std::string_view bytes, std::size_t at) { return number_at<std::uint32_t>(bytes, at); }
std::uint64_t u64(std::string_view bytes, std::size_t at) { return number_at<std::uint64_t>(bytes, at); }

std::string read_at(const FileHandle& file, std::uint64_t offset, std::uint64_t size,
                    const std::filesystem::path& path) {
  std::string bytes(size, '\0');
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::pread(file.get(), bytes.data() + done, std::min<std::size_t>(bytes.size() - done, 1u << 30),
                              static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, path, "cannot be read");
    if (n == 0)
      refuse(path.string(), "", "the file ended at byte " + std::to_string(offset + done),
             "the size it had when opened");
    done += static_cast<std::size_t>(n);
  }
  return bytes;
}

/// Where the central directory lies, as the end records say.
struct Directory {
  std::uint64_t begin, size, n_entries;
};

class Opener {
  [[noreturn]] void refuse(std::string where, std::string found, std::string expected, std::string hint = "") const {
    kvscope::refuse(path_.string(), std::move(where), std::move(found), std::move(expected), std::move(hint));
  }
  auto over() const {
    return [this](const std::string& found, const std::string&) { refuse("directory", found, "a .pt file"); };
  }

 public:
  Opener(const std::filesystem::path& path, const FileHandle& file, std::uint64_t size)
      : path_(path), file_(file), size_(size) {}

  void check_first_bytes() const {
    if (size_ == 0) refuse("", "empty file", "a .pt file", "the download did not start; download it again");
    const std::string head = read(0, std::min<std::uint64_t>(size_, 512));
    if (head.starts_with("PK\3\4") || head.starts_with("PK\5\6")) return;
    if (head.size() > 262 && std::string_view(head).substr(257, 5) == "ustar") {
      refuse("", "tar archive (torch.save before 0.1.10)", "a .pt file of torch >= 1.6", "save it again");
    }
    if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
      refuse("", "a bare pickle (torch.save before 1.6)", "a .pt file of torch >= 1.6", "save it again");
    }
    if (const auto foreign = recognise_foreign(head)) refuse("", foreign->found, "a .pt file", foreign->hint);
    refuse("", "not a ZIP archive", "a .pt file as torch.save writes it");
  }

  Directory find_directory() const {
    if (size_ < kEndBytes) refuse("", std::to_string(size_) + " bytes", "a ZIP archive");
    const std::uint64_t at = size_ - kEndBytes;
    const std::string end = read(at, kEndBytes);
    if (u32(end, 0) != kEnd) refuse_end();
    if (u16(end, 20) != 0) refuse("end record", "a comment of " + std::to_string(u16(end, 20)) + " bytes", "none");
    if ((u16(end, 4) != 0 && u16(end, 4) != kOnes16) || (u16(end, 6) != 0 && u16(end, 6) != kOnes16)) {
      refuse("end record", "an archive of several files", "one");
    }
    Directory plain{u32(end, 16), u32(end, 12), u16(end, 10)};
    if (u16(end, 8) != u16(end, 10)) {
      refuse("end record", std::to_string(u16(end, 8)) + " entries here", std::to_string(u16(end, 10)) + " as in all");
    }
    std::uint64_t directory_end = at;
    if (const auto wide = find_wide(at, directory_end)) plain = agree(plain, *wide);
    if (plain.size > kLimits.max_bytes || plain.begin > directory_end || plain.size != directory_end - plain.begin) {
      refuse("end record",
             "a directory of " + std::to_string(plain.size) + " bytes at byte " + std::to_string(plain.begin),
             "one that ends at byte " + std::to_string(directory_end));
    }
    if (plain.n_entries > kLimits.max_elements) {
      refuse("end record", std::to_string(plain.n_entries) + " entries",
             "at most " + std::to_string(kLimits.max_elements));
    }
    return plain;
  }

  /// Entries by their full names.
  std::map<std::string, ZipEntry> read_directory(const Directory& directory) {
    budget_.add_bytes(directory.size, over());
    const std::string bytes = read(directory.begin, directory.size);
    std::map<std::string, ZipEntry> entries;
    std::size_t at = 0;
    for (std::uint64_t i = 0; i < directory.n_entries; ++i) read_central(bytes, at, entries);
    if (at != bytes.size()) {
      refuse("directory", std::to_string(bytes.size() - at) + " bytes after its last entry", "none");
    }
    for (auto& [name, entry] : entries) find_data(name, entry, directory.begin);
    check_overlaps(entries);
    return entries;
  }

 private:
  std::string read(std::uint64_t offset, std::uint64_t size) const { return read_at(file_, offset, size, path_); }

  [[noreturn]] void refuse_end() const {
    const std::uint64_t tail = std::min<std::uint64_t>(size_, kEndBytes + kOnes16);
    const std::string bytes = read(size_ - tail, tail);
    const std::size_t at = bytes.rfind(std::string_view("PK\5\6", 4));
    if (at == std::string::npos || bytes.size() - at < kEndBytes) {
      refuse("", "no end record of a ZIP archive", "one", "the file was cut short; download it again");
    }
    refuse("end record", std::to_string(bytes.size() - at - kEndBytes) + " bytes of comment or foreign data after it",
           "the end of the file");
  }

  /// The zip64 end record (4.3.14) in front of its locator (4.3.15), if there is a locator; it then ends the directory.
  std::optional<Directory> find_wide(std::uint64_t end, std::uint64_t& directory_end) const {
    if (end < kLocatorBytes) return std::nullopt;
    const std::string locator = read(end - kLocatorBytes, kLocatorBytes);
    if (u32(locator, 0) != kLocator64) return std::nullopt;
    const std::uint64_t record_end = end - kLocatorBytes;
    if (record_end < kEnd64Bytes || u64(locator, 8) != record_end - kEnd64Bytes || u32(locator, 4) != 0) {
      refuse("zip64 locator", "a record at byte " + std::to_string(u64(locator, 8)),
             record_end < kEnd64Bytes ? "one before it" : "byte " + std::to_string(record_end - kEnd64Bytes));
    }
    directory_end = record_end - kEnd64Bytes;
    const std::string record = read(directory_end, kEnd64Bytes);
    if (u32(record, 0) != kEnd64 || u64(record, 4) != kEnd64Bytes - 12) {
      refuse("zip64 end record", "no such record where its locator points", "one of 56 bytes");
    }
    if (u32(record, 16) != 0 || u32(record, 20) != 0 || u64(record, 24) != u64(record, 32)) {
      refuse("zip64 end record", "an archive of several files", "one");
    }
    return Directory{u64(record, 48), u64(record, 40), u64(record, 32)};
  }

  Directory agree(const Directory& plain, const Directory& wide) const {
    const auto check = [&](const char* what, std::uint64_t a, std::uint64_t ones, std::uint64_t b) {
      if (a != ones && a != b) {
        refuse("zip64 end record", std::string(what) + " " + std::to_string(b),
               std::to_string(a) + " as in the end record");
      }
    };
    check("entries", plain.n_entries, kOnes16, wide.n_entries);
    check("directory bytes", plain.size, kOnes32, wide.size);
    check("directory offset", plain.begin, kOnes32, wide.begin);
    return wide;
  }

  void read_central(const std::string& bytes, std::size_t& at, std::map<std::string, ZipEntry>& entries) {
    budget_.add_element(over());
    if (bytes.size() - at < kCentralBytes || u32(bytes, at) != kCentralHeader) {
      refuse("directory", "no entry at its byte " + std::to_string(at), "as many as the end record gives");
    }
    const std::uint16_t flags = u16(bytes, at + 8), method = u16(bytes, at + 10);
    const std::size_t name_size = u16(bytes, at + 28), extra_size = u16(bytes, at + 30),
                      comment_size = u16(bytes, at + 32);
    if (bytes.size() - at - kCentralBytes < name_size + extra_size + comment_size) {
      refuse("directory", "an entry that runs past its end", "names within it");
    }
    const std::string name = bytes.substr(at + kCentralBytes, name_size);
    check_name(name);
    if (flags & 0x2041) refuse(name, "encrypted entry", "plain data");
    if (flags & ~0x080e) refuse(name, "entry flags " + std::to_string(flags), "those of torch.save (2056)");
    if (method != 0) {
      refuse(name, "compressed entry (method " + std::to_string(method) + ")", "stored data",
             "torch.save does not compress: unpack it and pack it again with zip -0");
    }
    if (u16(bytes, at + 34) != 0) refuse(name, "an entry in another file of the archive", "one file");
    ZipEntry entry{.header = u32(bytes, at + 42), .size = u32(bytes, at + 24), .crc = u32(bytes, at + 16)};
    std::uint64_t stored = u32(bytes, at + 20);
    widen(std::string_view(bytes).substr(at + kCentralBytes + name_size, extra_size), entry, stored, name);
    if (stored != entry.size) {
      refuse(name, std::to_string(stored) + " bytes stored for " + std::to_string(entry.size), "as many");
    }
    if (!entries.emplace(name, entry).second) refuse(name, "two entries of this name", "one");
    at += kCentralBytes + name_size + extra_size + comment_size;
  }

  /// Fields of all ones have their value in the extra field of id 1 (4.5.3), in this order.
  void widen(std::string_view extra, ZipEntry& entry, std::uint64_t& stored, const std::string& name) const {
    std::uint64_t* wide[] = {&entry.size, &stored, &entry.header};
    std::size_t needed = std::count_if(std::begin(wide), std::end(wide), [](auto* x) { return *x == kOnes32; });
    if (needed == 0) return;
    while (extra.size() >= 4) {
      const std::size_t size = u16(extra, 2);
      if (size > extra.size() - 4) break;
      if (u16(extra, 0) == 1 && size >= 8 * needed) {
        std::size_t at = 4;
        for (std::uint64_t* field : wide) {
          if (*field != kOnes32) continue;
          *field = u64(extra, at);
          at += 8;
        }
        return;
      }
      extra.remove_prefix(4 + size);
    }
    refuse(name, "sizes of all ones without a zip64 field", "sizes");
  }

  void check_name(const std::string& name) const {
    bool leads_out = name.empty() || name[0] == '/' || name.find('\\') != name.npos || name.find('\0') != name.npos;
    for (const auto& part : std::filesystem::path(name)) leads_out = leads_out || part == "..";
    if (leads_out) refuse("directory", "entry name " + in_quotes(name), "a name inside the archive's folder");
  }

  /// From the local header only the lengths of name and extra field are new; where it repeats something, it must agree.
  void find_data(const std::string& name, ZipEntry& entry, std::uint64_t limit) {
    const auto past = [&] {
      refuse(name, "data past the archive's directory", "data before byte " + std::to_string(limit));
    };
    if (limit < kLocalBytes || entry.header > limit - kLocalBytes) past();
    const std::string header = read(entry.header, kLocalBytes);
    if (u32(header, 0) != kLocalHeader) {
      refuse(name, "no local header at byte " + std::to_string(entry.header), "one, as listed in the directory");
    }
    const std::uint64_t name_size = u16(header, 26), extra_size = u16(header, 28);
    entry.begin = entry.header + kLocalBytes + name_size + extra_size;
    if (entry.begin > limit || entry.size > limit - entry.begin) past();
    budget_.add_bytes(name_size, over());
    if (read(entry.header + kLocalBytes, name_size) != name) {
      refuse(name, "a different name in the local header", "the directory's");
    }
    if (u16(header, 8) != 0) refuse(name, "compressed entry by its local header", "stored data");
    for (const std::size_t at : {18, 22}) {
      const std::uint32_t size = u32(header, at);
      if (size != 0 && size != kOnes32 && size != entry.size) {
        refuse(name, std::to_string(size) + " bytes by the local header",
               std::to_string(entry.size) + " as in the directory");
      }
    }
  }

  void check_overlaps(const std::map<std::string, ZipEntry>& entries) const {
    std::vector<const std::pair<const std::string, ZipEntry>*> order;
    for (const auto& item : entries) order.push_back(&item);
    std::sort(order.begin(), order.end(),
              [](const auto* a, const auto* b) { return a->second.header < b->second.header; });
    for (std::size_t i = 1; i < order.size(); ++i) {
      const ZipEntry& before = order[i - 1]->second;
      if (order[i]->second.header >= before.begin + before.size) continue;
      refuse(order[i]->first, "an overlap with " + escape_for_terminal(order[i - 1]->first, 80), "separate data");
    }
  }

  const std::filesystem::path& path_;
  const FileHandle& file_;
  std::uint64_t size_;
  ReadBudget budget_{kLimits};
};

}  // namespace

ZipFile ZipFile::open(const std::filesystem::path& path) {
  ZipFile zip;
  zip.path_ = path;
  std::uint64_t size = 0;
  zip.file_ = open_regular_file(path, size);
  Opener opener(path, zip.file_, size);
  opener.check_first_bytes();
  for (const auto& [name, entry] : opener.read_directory(opener.find_directory())) {
    const std::size_t slash = name.find('/');
    const std::string root = name.substr(0, slash);
    if (slash == name.npos || slash == 0)
      refuse(path.string(), name, "an entry outside of a folder", "one root folder");
    if (zip.root_.empty()) zip.root_ = root;
    if (root != zip.root_)
      refuse(path.string(), name, "a second root folder", escape_for_terminal(zip.root_, 80) + "/...");
    zip.entries_.emplace(name.substr(slash + 1), entry);
  }
  if (zip.entries_.empty())
    refuse(path.string(), "", "an archive without entries", "a .pt file as torch.save writes it");
  return zip;
}

std::string ZipFile::read(const std::string& name) const {
  const ZipEntry& entry = entries_.at(name);
  std::string bytes = read_at(file_, entry.begin, entry.size, path_);
  if (entry.crc != 0 && entry.crc != crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size())) {
    refuse(path_.string(), root_ + "/" + name, "CRC-32 of the data is wrong", "the value in the directory",
           "the file was damaged; download it again");
  }
  return bytes;
}

bool ZipFile::has_checksums() const {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const auto& item) { return item.second.crc != 0 || item.second.size == 0; });
}

}  // namespace kvscope
