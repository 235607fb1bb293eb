#include "tests/app/model_damage.h"

#include <sys/stat.h>

#include <fstream>
#include <stdexcept>

#include "tests/app/process.h"

namespace kvscope::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kWeights = "model.safetensors";

std::uint64_t header_length(const std::string& bytes) {
  std::uint64_t n = 0;
  for (int i = 7; i >= 0; --i) n = n << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(i)]);
  return n;
}

}  // namespace

std::string le64(std::uint64_t n) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[static_cast<std::size_t>(i)] = static_cast<char>(n >> (8 * i));
  return bytes;
}

void write_bytes(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void clear(const fs::path& path) { fs::remove_all(path); }

Damage put(std::string file, std::string bytes) {
  return [=](const fs::path& folder) {
    clear(folder / file);
    write_bytes(folder / file, bytes);
  };
}

Damage put_directory(std::string file) {
  return [=](const fs::path& folder) {
    clear(folder / file);
    fs::create_directory(folder / file);
  };
}

Damage put_fifo(std::string file) {
  return [=](const fs::path& folder) {
    clear(folder / file);
    if (::mkfifo((folder / file).c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
  };
}

Damage put_link(std::string file, std::string target) {
  return [=](const fs::path& folder) {
    clear(folder / file);
    fs::create_symlink(target, folder / file);
  };
}

Damage remove_file(std::string file) {
  return [=](const fs::path& folder) { clear(folder / file); };
}

Damage resize(std::string file, std::int64_t count) {
  return [=](const fs::path& folder) {
    fs::resize_file(folder / file,
                    static_cast<std::uintmax_t>(static_cast<std::int64_t>(fs::file_size(folder / file)) + count));
  };
}

Damage edit_bytes(std::string file, std::function<std::string(std::string)> edit) {
  return [=](const fs::path& folder) { write_bytes(folder / file, edit(read_text(folder / file))); };
}

Damage edit_json(std::string file, std::function<void(json&)> edit) {
  return edit_bytes(file, [=](const std::string& text) {
    json value = json::parse(text);
    edit(value);
    return value.dump();
  });
}

Damage set_json(std::string file, std::string pointer, json value) {
  return edit_json(file, [=](json& whole) { whole[json::json_pointer(pointer)] = value; });
}

Damage edit_header(std::function<std::string(std::string)> edit) {
  return edit_bytes(kWeights, [=](const std::string& bytes) {
    const std::uint64_t n = header_length(bytes);
    const std::string header = edit(bytes.substr(8, n));
    return le64(header.size()) + header + bytes.substr(8 + n);
  });
}

Damage edit_entry(std::string tensor, std::function<void(json&)> edit) {
  return edit_header([=](const std::string& header) {
    json whole = json::parse(header);
    edit(whole.at(tensor));
    return whole.dump();
  });
}

Damage set_header_length(std::function<std::uint64_t(std::uint64_t)> length) {
  return edit_bytes(kWeights, [=](std::string bytes) { return bytes.replace(0, 8, le64(length(bytes.size()))); });
}

Damage add_to_header(std::string text) {
  return edit_header([=](std::string header) { return header.insert(header.rfind('}'), text); });
}

Damage after(Damage first, Damage second) {
  return [=](const fs::path& folder) {
    first(folder);
    second(folder);
  };
}

}  // namespace kvscope::test
