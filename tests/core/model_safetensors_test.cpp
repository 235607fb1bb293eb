// Every way a safetensors file can be malformed that we know of, each with the reason its error must give; and odd
// files that are legal and must load.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "engine/core/files/weights/safetensors.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace fs = std::filesystem;
using kvscope::SafetensorsFile;
using kvscope::TensorType;
using kvscope::test::error_of;
using kvscope::test::TempFolder;

namespace {

std::string le64(std::uint64_t n) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(n >> (8 * i));
  return bytes;
}

/// A file of this header and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes = 0) {
  return le64(header.size()) + header + std::string(data_bytes, '\x2A');
}

/// The text of one entry.
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

const std::string kTwo =
    R"({"a":)" + entry("F32", "[2]", "[0,8]") + R"(,"b":)" + entry("BF16", "[2,1]", "[8,12]") + "}";

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"t":)" + entry(dtype, shape, offsets) + "}";
}

struct Case {
  const char* name;
  std::string bytes;
  const char* reason;  // must be in the line
  const char* where = "";
};

std::vector<Case> framing() {
  const std::string good = file_of(kTwo, 12);
  std::string big_endian = good;
  std::reverse(big_endian.begin(), big_endian.begin() + 8);
  std::string late = good;
  late.replace(0, 8, le64(good.size() - 7));
  std::string swallowed = good;
  swallowed.replace(0, 8, le64(good.size() - 8));
  return {
      {"0 bytes", "", "empty file"},
      {"1 byte", "x", "1 bytes; expected a header length"},
      {"7 bytes", "1234567", "7 bytes; expected a header length"},
      {"length 0", le64(0) + "{}", "header of 0 bytes"},
      {"length 1", le64(1) + "{", "end of input"},
      {"length 100,000,000 in a short file", le64(100'000'000) + "{}", "header length 100000000 passes the end"},
      {"length 100,000,001", le64(100'000'001) + "{}", "header length 100000001; expected at most 100000000"},
      {"length 2^63", le64(1ull << 63) + "{}", "header length 9223372036854775808; expected at most"},
      {"length 2^64 - 1", le64(~0ull) + "{}", "header length 18446744073709551615; expected at most"},
      {"length 2^64 - 8, which wraps", le64(~0ull - 7) + "{}", "header length 18446744073709551608; expected at most"},
      {"length one more than the file", late, "passes the end of the file"},
      {"length of all the file", swallowed, "expected end of input"},
      {"cut inside the header", good.substr(0, 40), "cut short"},
      {"cut inside the data by 1 byte", good.substr(0, good.size() - 1), "data ends at 12, past the end of the file",
       "b"},
      {"1 trailing byte", good + "x", "1 trailing bytes"},
      {"a ZIP behind it", good + "PK\3\4" + std::string(30, '\0'), "34 trailing bytes"},
      {"Git LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:3f2a8888deadbeef\nsize 4900000000\n",
       "Git LFS pointer (oid 3f2a8888, 4900000000 bytes), not weights; hint: run \"git lfs pull\""},
      {"HTML page", "<!doctype HTML>\n<html><body>404</body></html>", "HTML page, not weights"},
      {"gzip", std::string("\x1F\x8B\x08\x00\x00\x00\x00\x00\x00\x03", 10) + std::string(20, 'x'), "gzip archive"},
      {"ZIP", "PK\3\4" + std::string("\x14\0\0\0\x08\0", 6) + std::string(40, 'x'), "ZIP archive"},
      {"pickle", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", "Python pickle"},
      {"pickle of a small length", std::string("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00", 11), "Python pickle"},
      {"GGUF", "GGUF" + std::string("\x03\0\0\0", 4) + std::string(40, '\0'), "GGUF file"},
      {"HDF5", "\x89HDF\r\n\x1a\n" + std::string(40, '\0'), "HDF5 file"},
      {"big-endian length", big_endian, "big-endian"},
  };
}

std::vector<Case> text() {
  const auto named = [](const std::string& name) { return "{\"" + name + "\":" + entry("U8", "[0]", "[0,0]") + "}"; };
  std::string many = "{";
  for (int i = 0; i < 300'000; ++i)
    many += (i ? ",\"" : "\"") + std::to_string(i) + "\":" + entry("U8", "[0]", "[0,0]");
  return {
      {"invalid UTF-8", file_of("{\"\xff\":" + entry("U8", "[0]", "[0,0]") + "}"), "UTF-8"},
      {"byte order mark", file_of("\xEF\xBB\xBF{}"), "byte order mark"},
      {"NUL padding", file_of(std::string("{}\0\0\0", 5)), "NUL byte"},
      {"text after the JSON", file_of("{} x"), "not valid JSON"},
      {"header []", file_of("[]"), "header begins with []"},
      {"header null", file_of("null"), "header begins with null"},
      {"header 1", file_of("1"), "header begins with 1"},
      {"header \"x\"", file_of("\"x\""), "header begins with \"x\""},
      {"white space only", file_of("        "), "white space only"},
      {"{} with data", file_of("{}", 4), "4 trailing bytes"},
      {"depth 10^5", file_of("{\"t\":{\"x\":" + std::string(100'000, '[')), "deeper than 8"},
      {"300,000 empty tensors", file_of(many + "}"), "more than 262144 tensors"},
      {"a name of 50 MB", file_of(named(std::string(50'000'000, 'n'))), "name of 50000000 bytes"},
      {"a tensor twice",
       file_of(R"({"a":)" + entry("U8", "[4]", "[0,4]") + R"(,"a":)" + entry("U8", "[4]", "[4,8]") + "}", 8),
       "key \"a\" twice"},
      {"a key twice in an entry", file_of(R"({"a":{"dtype":"U8","dtype":"I8","shape":[0],"data_offsets":[0,0]}})"),
       "key \"dtype\" twice"},
      {"a comment", file_of("{/* c */}"), "not valid JSON"},
      {"a trailing comma", file_of(R"({"a":)" + entry("U8", "[0]", "[0,0]") + ",}"), "not valid JSON"},
      {"NaN", file_of(one("U8", "[NaN]", "[0,0]")), "invalid literal"},
      {"lone surrogate in a name", file_of(named("\\ud800")), "surrogate"},
      {"newline in a name", file_of(named("a\nb")), "control character"},
      {"empty name", file_of(named("")), "empty name"},
  };
}

std::vector<Case> entries() {
  const auto raw = [](const std::string& e) { return file_of("{\"t\":" + e + "}", 16); };
  std::string rank = "[1";
  for (int i = 1; i < 10'000; ++i) rank += ",1";
  return {
      {"dtype missing", raw(R"({"shape":[4],"data_offsets":[0,16]})"), "dtype missing", "t"},
      {"shape missing", raw(R"({"dtype":"F32","data_offsets":[0,16]})"), "shape missing", "t"},
      {"data_offsets missing", raw(R"({"dtype":"F32","shape":[4]})"), "data_offsets missing", "t"},
      {"entry an array", raw("[]"), "entry is an array", "t"},
      {"entry a number", raw("7"), "entry is 7", "t"},
      {"entry null", raw("null"), "entry is null", "t"},
      {"entry a text", raw("\"F32\""), "entry is \"F32\"", "t"},
      {"unknown dtype", raw(entry("F31", "[4]", "[0,16]")), "unknown dtype \"F31\"", "t"},
      {"lower-case dtype", raw(entry("f32", "[4]", "[0,16]")), "unknown dtype \"f32\"", "t"},
      {"dtype a number", raw(R"({"dtype":32,"shape":[4],"data_offsets":[0,16]})"), "dtype is 32", "t"},
      {"dtype an array", raw(R"({"dtype":["F32"],"shape":[4],"data_offsets":[0,16]})"), "dtype is an array", "t"},
      {"shape a number", raw(entry("F32", "4", "[0,16]")), "shape is 4", "t"},
      {"shape an object", raw(entry("F32", "{}", "[0,16]")), "shape is an object", "t"},
      {"shape of arrays", raw(entry("F32", "[[4]]", "[0,16]")), "dimension an array", "t"},
      {"dimension -1", raw(entry("F32", "[-1]", "[0,16]")), "dimension -1", "t"},
      {"dimension 1.5", raw(entry("F32", "[1.5]", "[0,16]")), "dimension 1.5", "t"},
      {"dimension \"4\"", raw(entry("F32", "[\"4\"]", "[0,16]")), "dimension \"4\"", "t"},
      {"dimension null", raw(entry("F32", "[null]", "[0,16]")), "dimension null", "t"},
      {"dimension 1e400", raw(entry("F32", "[1e400]", "[0,16]")), "number overflow"},
      {"dimension 2^64", raw(entry("F32", "[18446744073709551616]", "[0,16]")), "dimension 18446744073709551616", "t"},
      {"dimension 2^53 + 1", raw(entry("F32", "[9007199254740993]", "[0,16]")), "dimension 9007199254740993", "t"},
      {"2^32 x 2^32", raw(entry("F32", "[4294967296,4294967296]", "[0,16]")), "product overflows 64 bits", "t"},
      {"65536 x 65536, which overflows 32 bits", raw(entry("U8", "[65536,65536]", "[0,0]")),
       "data of 0 bytes; expected 4294967296", "t"},
      {"a zero hiding an overflow", raw(entry("U8", "[9007199254740992,9007199254740992,0]", "[0,0]")),
       "overflows 64 bits", "t"},
      {"bits past 64 bits", raw(entry("F64", "[1073741824,1073741824]", "[0,0]")), "size in bits overflows", "t"},
      {"rank 10,000", raw(entry("U8", rank + "]", "[0,1]")), "more than 32 dimensions", "t"},
  };
}

std::vector<Case> offsets() {
  const auto two = [](const std::string& a, const std::string& b, std::size_t data) {
    return file_of(R"({"a":)" + entry("U8", "[4]", a) + R"(,"b":)" + entry("U8", "[4]", b) + "}", data);
  };
  return {
      {"no offset", file_of(one("U8", "[4]", "[]"), 4), "data_offsets with 0 numbers", "t"},
      {"one offset", file_of(one("U8", "[4]", "[0]"), 4), "data_offsets with 1 numbers", "t"},
      {"three offsets", file_of(one("U8", "[4]", "[0,4,8]"), 4), "more than two numbers", "t"},
      {"offsets a number", file_of(one("U8", "[4]", "4"), 4), "data_offsets is 4", "t"},
      {"offset -4", file_of(one("U8", "[4]", "[-4,0]"), 4), "data offset -4", "t"},
      {"begin after end", file_of(one("U8", "[4]", "[8,4]"), 8), "begin 8 after end 4", "t"},
      {"end past the data", file_of(one("U8", "[8]", "[0,8]"), 4), "data ends at 8, past the end", "t"},
      {"first tensor not at 0", file_of(one("U8", "[4]", "[4,8]"), 8), "a hole of 4 bytes", "t"},
      {"a hole between", two("[0,4]", "[5,9]", 9), "a hole of 1 bytes", "b"},
      {"an overlap by 1", two("[0,4]", "[3,7]", 7), "an overlap of 1 bytes with a", "b"},
      {"identical ranges", two("[0,4]", "[0,4]", 4), "an overlap of 4 bytes with a", "b"},
      {"size 1 too small", file_of(one("F32", "[4]", "[0,15]"), 15), "data of 15 bytes; expected 16", "t"},
      {"size 1 too large", file_of(one("F32", "[4]", "[0,17]"), 17), "data of 17 bytes; expected 16", "t"},
      {"odd count of half bytes", file_of(one("F4", "[3]", "[0,1]"), 1), "12 bits of F4; expected whole bytes", "t"},
      {"odd count of six bits", file_of(one("F6_E2M3", "[2]", "[0,1]"), 1), "12 bits of F6_E2M3", "t"},
      {"metadata of a number", file_of(R"({"__metadata__":{"a":1}})"), "value of \"a\" is 1", "__metadata__"},
      {"metadata of an object", file_of(R"({"__metadata__":{"a":{}}})"), "value of \"a\" is an object", "__metadata__"},
      {"metadata an array", file_of(R"({"__metadata__":[]})"), "entry is an array", "__metadata__"},
  };
}

void check_refused(const std::vector<Case>& cases) {
  const TempFolder folder;
  for (const Case& c : cases) {
    const auto path = folder.write("model.safetensors", c.bytes);
    const std::string line = error_of([&] { SafetensorsFile::open(path); });
    CAPTURE(c.name, line);
    const std::string place = c.where[0] ? std::string(": ") + c.where + ": " : ": ";
    CHECK(line.starts_with(path.string() + place));
    CHECK_THAT(line, Catch::Contains(c.reason));
  }
}

std::string read_all(const SafetensorsFile& file, const std::string& name) {
  const auto& e = file.tensors().at(name);
  std::string bytes(e.end - e.begin, '\0');
  file.read(e, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace

TEST_CASE("A safetensors file with a malformed frame is refused with its reason") { check_refused(framing()); }
TEST_CASE("A safetensors file with malformed header text is refused with its reason") { check_refused(text()); }
TEST_CASE("A safetensors file with a malformed entry is refused with tensor and reason") { check_refused(entries()); }
TEST_CASE("A safetensors file whose tensors do not tile its data is refused with tensor and reason") {
  check_refused(offsets());
}

TEST_CASE("A sparse file of a terabyte, a folder, a FIFO and a device in place of weights are refused at once") {
  const TempFolder folder;
  const auto sparse = folder.write("sparse", "");
  if (::truncate(sparse.c_str(), 1ll << 40) == 0) {
    CHECK_THAT(error_of([&] { SafetensorsFile::open(sparse); }), Catch::Contains("header of 0 bytes"));
  }
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { SafetensorsFile::open(folder / "fifo"); }), Catch::Contains("a FIFO"));
  CHECK_THAT(error_of([&] { SafetensorsFile::open(folder.path()); }), Catch::Contains("a directory"));
  CHECK_THAT(error_of([&] { SafetensorsFile::open("/dev/zero"); }), Catch::Contains("a character device"));
  CHECK_THAT(error_of([&] { SafetensorsFile::open(folder / "none"); }), Catch::Contains("No such file"));
}

TEST_CASE("Odd but legal safetensors files load") {
  const TempFolder folder;
  const auto open = [&](const std::string& bytes) { return SafetensorsFile::open(folder.write("f", bytes)); };
  CHECK(open(file_of("{}")).tensors().empty());
  CHECK(open(file_of(" \t\r\n{} \n ")).tensors().empty());
  CHECK(open(file_of(R"({"__metadata__":{"k":"v"}})")).metadata().at("k") == "v");
  CHECK(open(file_of(R"({"__metadata__":{"k":")" + std::string(10'000'000, 'v') + "\"}}")).metadata().at("k").size() ==
        10'000'000);
  CHECK(open(file_of(one("F32", "[]", "[0,4]"), 4)).tensors().at("t").n_elements() == 1);
  CHECK(open(file_of(one("F32", "[3,0,9007199254740992]", "[0,0]"))).tensors().at("t").n_elements() == 0);
  CHECK(open(file_of(R"({"a":)" + entry("U8", "[0]", "[0,0]") + R"(,"b":)" + entry("U8", "[0]", "[0,0]") + "}"))
            .tensors()
            .size() == 2);
  const std::string extra =
      R"({"t":{"dtype":"U8","x":{"y":[1,{"z":null}]},"shape":[1],"l":[[],"s",-1,0.5,true],"data_offsets":[0,1]}})";
  CHECK(read_all(open(file_of(extra, 1)), "t") == "\x2A");
  // Names that a terminal must not see raw are names all the same.
  CHECK(open(file_of(R"({"a\u0000\u001b\u202e":)" + entry("U8", "[1]", "[0,1]") + "}", 1)).tensors().size() == 1);
  // Data that begins at an odd byte; tensors listed in another order than they lie.
  const std::string unsorted =
      R"({"b":)" + entry("U8", "[1]", "[2,3]") + R"(, "a":)" + entry("F16", "[1]", "[0,2]") + "}";
  const SafetensorsFile file = open(file_of(unsorted + std::string(unsorted.size() % 2, ' ') + " ") + "xyz");
  CHECK(file.header().size() % 2 == 1);
  CHECK(read_all(file, "a") == "xy");
  CHECK(read_all(file, "b") == "z");
}

TEST_CASE("All types of the format load, and only three are for computing") {
  struct Type {
    const char* name;
    int bits;
  };
  const auto t = GENERATE(values<Type>(
      {{"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},          {"I8", 8},
       {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
       {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},        {"F32", 32},
       {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}}));
  const TempFolder folder;
  const std::size_t bytes = 4 * t.bits / 8;
  folder.write("model.safetensors", file_of(one(t.name, "[4]", "[0," + std::to_string(bytes) + "]"), bytes));
  const auto weights = kvscope::WeightFiles::open(folder.path());
  CAPTURE(t.name);
  const std::string name = t.name;
  if (name == "F32" || name == "F16" || name == "BF16") {
    const auto [file, e] = weights.find("t", {4});
    CHECK(e->type == (name == "F32" ? TensorType::f32 : name == "F16" ? TensorType::f16 : TensorType::bf16));
    CHECK(e->end - e->begin == bytes);
  } else {
    CHECK_THAT(error_of([&] { weights.find("t", {4}); }),
               Catch::Contains("t: dtype " + name + " is not supported; expected F32, F16 or BF16"));
  }
}

TEST_CASE("A file cut after it was opened is an error, not a crash") {
  const TempFolder folder;
  const auto path = folder.write("f", file_of(kTwo, 12));
  const SafetensorsFile file = SafetensorsFile::open(path);
  fs::resize_file(path, file.file_size() - 1);
  CHECK(read_all(file, "a") == std::string(8, '\x2A'));
  CHECK_THAT(error_of([&] { read_all(file, "b"); }), Catch::Contains("the file ended at byte"));
}

TEST_CASE("A buffer of another size than the tensor is refused") {
  const TempFolder folder;
  const SafetensorsFile file = SafetensorsFile::open(folder.write("f", file_of(kTwo, 12)));
  std::byte small[7];
  CHECK_THAT(error_of([&] { file.read(file.tensors().at("a"), small); }),
             Catch::Contains("a buffer of 7 bytes; expected 8"));
}

TEST_CASE("Written tensors read back, and the same tensors give the same bytes in any order") {
  const TempFolder folder;
  std::vector<float> a(6);
  std::iota(a.begin(), a.end(), -2.5f);
  const std::vector<std::uint16_t> b{0x3F80, 0xC000};
  const std::vector<kvscope::TensorToWrite> tensors{
      {"z.weight", TensorType::f32, {2, 3}, std::as_bytes(std::span(a))},
      {"a \"quoted\" ü", TensorType::bf16, {2}, std::as_bytes(std::span(b))},
      {"scalar", TensorType::f32, {}, std::as_bytes(std::span(a).first(1))},
      {"empty", TensorType::f16, {0, 4}, {}},
  };
  kvscope::write_safetensors(folder / "1", tensors, {{"format", "pt"}});
  kvscope::write_safetensors(folder / "2", {tensors.rbegin(), tensors.rend()}, {{"format", "pt"}});
  const SafetensorsFile one = SafetensorsFile::open(folder / "1"), two = SafetensorsFile::open(folder / "2");
  CHECK(one.header() == two.header());
  CHECK(one.header().size() % 8 == 0);
  CHECK(one.metadata() == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(one.tensors().size() == tensors.size());
  for (const auto& t : tensors) {
    CHECK(one.tensors().at(t.name).shape == t.shape);
    CHECK(one.tensors().at(t.name).type == t.type);
    CHECK(read_all(one, t.name) == std::string(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()));
    CHECK(read_all(one, t.name) == read_all(two, t.name));
  }
}

TEST_CASE("Tensors whose bytes do not fit their shape, or two of one name, are not written") {
  const TempFolder folder;
  const std::byte bytes[8]{};
  const auto write = [&](const std::vector<kvscope::TensorToWrite>& t) {
    return error_of([&] { kvscope::write_safetensors(folder / "f", t); });
  };
  CHECK_THAT(write({{"t", TensorType::f32, {3}, bytes}}),
             Catch::Contains("t: a tensor of 8 bytes to write; expected 12"));
  CHECK_THAT(write({{"t", TensorType::other, {8}, bytes}}), Catch::Contains("to write"));
  CHECK_THAT(write({{"t", TensorType::f32, {-2}, bytes}}), Catch::Contains("to write"));
  CHECK_THAT(write({{"t", TensorType::f32, {2}, bytes}, {"t", TensorType::f32, {2}, bytes}}), Catch::Contains("twice"));
  CHECK_FALSE(fs::exists(folder / "f"));
}
