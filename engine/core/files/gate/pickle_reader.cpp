// Opcodes as in Python's Lib/pickletools.py.
#include "engine/core/files/gate/pickle_reader.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>

#include "engine/core/support/read_budget.h"
#include "engine/core/support/refuse.h"
#include "engine/core/support/utf8.h"

namespace kvscope {
namespace {

using Kind = PickleValue::Kind;

/// Elements are opcodes: one of a byte may cost a value of a hundred.
constexpr ReadLimits kLimits{.max_bytes = 16u << 20, .max_depth = 32, .max_elements = 1'000'000};
constexpr std::size_t kMaxMemo = 65536, kMaxGlobal = 256;
constexpr char kConvert[] = "convert it to safetensors (docs/reference/gates.md)";
constexpr std::string_view kStorages[] = {"torch FloatStorage", "torch HalfStorage", "torch BFloat16Storage"};
constexpr std::string_view kOrderedDict = "collections OrderedDict", kTensor = "torch._utils _rebuild_tensor_v2",
                           kParameter = "torch._utils _rebuild_parameter";

class Machine {
  [[noreturn]] void fail(std::string found, std::string expected, std::string hint = "") const {
    refuse(file_, "data.pkl byte " + std::to_string(start_), std::move(found), std::move(expected), std::move(hint));
  }
  auto over() const {
    return [this](const std::string& found, const std::string&) { fail(found, "a dict of tensors"); };
  }

 public:
  Machine(std::string_view bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  Pickle run() {
    if (bytes_.size() < 2 || bytes_[0] != '\x80') fail("no pickle protocol", "protocol 2");
    budget_.add_bytes(bytes_.size(), over());
    while (!stopped_) {
      start_ = at_;
      budget_.add_element(over());
      step(take(1)[0]);
    }
    if (at_ != bytes_.size()) fail(std::to_string(bytes_.size() - at_) + " bytes after STOP", "the end of data.pkl");
    return std::move(out_);
  }

 private:
  using Place = std::uint32_t;

  std::string_view take(std::size_t n) {
    if (bytes_.size() - at_ < n) {
      fail("the pickle ends inside an opcode or before STOP",
           n == 1 ? "STOP" : std::to_string(n) + " bytes, not " + std::to_string(bytes_.size() - at_));
    }
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  std::uint64_t natural(std::size_t n) {
    const std::string_view bytes = take(n);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < n; ++i) value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return value;
  }
  /// Two's complement of n bytes, n <= 8.
  std::int64_t integer(std::size_t n) {
    const std::uint64_t value = natural(n);
    if (n == 0 || n == 8) return static_cast<std::int64_t>(value);
    const std::uint64_t sign = std::uint64_t{1} << (8 * n - 1);
    return static_cast<std::int64_t>((value ^ sign) - sign);
  }
  std::string line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos || end - at_ > kMaxGlobal) fail("a global without a line end", "a module and a name");
    std::string text(take(end - at_));
    take(1);
    return text;
  }

  PickleValue& value(Place place) { return out_.values[place]; }
  void push(PickleValue value) {
    for (const Place item : value.items) value.depth = std::max(value.depth, out_.values[item].depth + 1);
    check_depth(value.depth);
    stack_.push_back(static_cast<Place>(out_.values.size()));
    out_.values.push_back(std::move(value));
  }
  void push_integer(std::int64_t n) { push({.kind = Kind::integer, .integer = n}); }
  /// Of what is built, which opcodes nest in any order.
  void check_depth(int depth) const {
    if (depth > kLimits.max_depth) {
      over()("nested deeper than " + std::to_string(kLimits.max_depth) + " levels", "");
    }
  }

  Place pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("an opcode that finds the stack empty", "a value");
    const Place place = stack_.back();
    stack_.pop_back();
    return place;
  }
  Place pop(Kind kind, const char* what) {
    const Place place = pop();
    if (value(place).kind != kind) fail("an opcode on a value of another kind", what);
    return place;
  }
  std::vector<Place> pop_to_mark() {
    if (marks_.empty()) fail("an opcode that finds no mark", "a mark");
    std::vector<Place> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    budget_.leave();
    return items;
  }
  void push_tuple(std::size_t n) {
    PickleValue tuple{.kind = Kind::tuple, .items = std::vector<Place>(n)};
    for (std::size_t i = n; i-- > 0;) tuple.items[i] = pop();
    push(std::move(tuple));
  }

  void step(char opcode);
  void text();
  void global();
  void store(std::uint64_t place);
  void load(std::uint64_t place);
  void set_items(const std::vector<Place>& items);
  void persistent();
  void reduce();
  void reduce_tensor(const PickleValue& arguments);
  void reduce_parameter(const PickleValue& arguments);
  void build();
  void stop();

  std::string_view bytes_;
  const std::string& file_;
  std::size_t at_ = 0, start_ = 0;  // next byte; first byte of the opcode
  bool stopped_ = false;
  ReadBudget budget_{kLimits};
  Pickle out_;
  std::vector<Place> stack_;
  std::vector<std::size_t> marks_;          // sizes of the stack
  std::vector<std::optional<Place>> memo_;  // grows by one place at a time, as picklers number them
};

void Machine::step(char opcode) {
  switch (static_cast<unsigned char>(opcode)) {
    case 0x80:  // PROTO
      if (const auto version = natural(1); version != 2) {
        fail("pickle protocol " + std::to_string(version), "protocol 2, which torch.save writes");
      }
      return;
    case '(':  // MARK
      marks_.push_back(stack_.size());
      return budget_.enter(over());
    case 'N':
      return push({});
    case 0x88:  // NEWTRUE
    case 0x89:  // NEWFALSE
      return push({.kind = Kind::boolean, .integer = opcode == '\x88'});
    case 'K':  // BININT1
      return push_integer(static_cast<std::int64_t>(natural(1)));
    case 'M':  // BININT2
      return push_integer(static_cast<std::int64_t>(natural(2)));
    case 'J':  // BININT
      return push_integer(integer(4));
    case 0x8a: {  // LONG1
      const std::uint64_t n = natural(1);
      if (n > 8) fail("an integer of " + std::to_string(n) + " bytes", "at most 8");
      return push_integer(integer(n));
    }
    case 'X':  // BINUNICODE
      return text();
    case 'c':
      return global();
    case '}':  // EMPTY_DICT
      return push({.kind = Kind::dict});
    case ')':  // EMPTY_TUPLE
      return push({.kind = Kind::tuple});
    case 0x85:  // TUPLE1, TUPLE2, TUPLE3
    case 0x86:
    case 0x87:
      return push_tuple(static_cast<unsigned char>(opcode) - 0x84u);
    case 't':  // TUPLE
      return push({.kind = Kind::tuple, .items = pop_to_mark()});
    case 'q':  // BINPUT
      return store(natural(1));
    case 'r':  // LONG_BINPUT
      return store(natural(4));
    case 'h':  // BINGET
      return load(natural(1));
    case 'j':  // LONG_BINGET
      return load(natural(4));
    case 's': {  // SETITEM
      const Place item = pop(), key = pop();
      return set_items({key, item});
    }
    case 'u':  // SETITEMS
      return set_items(pop_to_mark());
    case 'Q':  // BINPERSID
      return persistent();
    case 'R':
      return reduce();
    case 'b':
      return build();
    case '.':
      return stop();
  }
  char name[8];
  std::snprintf(name, sizeof name, "0x%02x", static_cast<unsigned char>(opcode));
  fail("opcode " + std::string(name) + " is not allowed in a gate checkpoint", "a dict of tensors", kConvert);
}

void Machine::text() {
  const std::uint64_t size = natural(4);
  if (size > bytes_.size() - at_) {
    fail("a text of " + std::to_string(size) + " bytes", std::to_string(bytes_.size() - at_) + " at most");
  }
  const std::string_view bytes = take(size);
  for (std::size_t i = 0; i < bytes.size();) {
    const Utf8Char c = decode_utf8(bytes, i);
    if (!c.valid) fail("a text that is not UTF-8", "UTF-8");
    i += c.length;
  }
  push({.kind = Kind::text, .text = std::string(bytes)});
}

void Machine::global() {
  const std::string module = line(), name = module + " " + line();
  const bool storage = std::find(std::begin(kStorages), std::end(kStorages), name) != std::end(kStorages);
  if (!storage && name != kOrderedDict && name != kTensor && name != kParameter) {
    if (module == "torch" && name.ends_with("Storage")) {
      fail(escape_for_terminal(name, 80) + " holds a type that gates do not use",
           "torch FloatStorage, HalfStorage or BFloat16Storage", kConvert);
    }
    fail("global " + in_quotes(name, 80) + " is not allowed in a gate checkpoint", "a dict of tensors", kConvert);
  }
  push({.kind = Kind::global, .text = name});
}

void Machine::store(std::uint64_t place) {
  if (place >= kMaxMemo) fail("memo place " + std::to_string(place), "at most 65535");
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("an opcode that finds the stack empty", "a value");
  if (memo_.size() <= place) memo_.resize(place + 1);
  memo_[place] = stack_.back();
}

void Machine::load(std::uint64_t place) {
  if (place >= memo_.size() || !memo_[place]) fail("memo place " + std::to_string(place) + " is empty", "a value");
  stack_.push_back(*memo_[place]);
}

void Machine::set_items(const std::vector<Place>& items) {
  if (items.size() % 2 != 0) fail("a key without a value", "pairs");
  const Place dict = pop(Kind::dict, "a dict");
  PickleValue& target = value(dict);
  for (const Place item : items) target.depth = std::max(target.depth, value(item).depth + 1);
  check_depth(target.depth);
  target.items.insert(target.items.end(), items.begin(), items.end());
  stack_.push_back(dict);
}

/// ("storage", type, key, location, number of elements): the only objects that torch.save keeps outside the pickle.
void Machine::persistent() {
  const PickleValue& id = value(pop(Kind::tuple, "a storage's tuple"));
  constexpr Kind kKinds[] = {Kind::text, Kind::global, Kind::text, Kind::text, Kind::integer};
  bool fits = id.items.size() == std::size(kKinds);
  for (std::size_t i = 0; fits && i < id.items.size(); ++i) fits = value(id.items[i]).kind == kKinds[i];
  if (!fits || value(id.items[0]).text != "storage") fail("an unknown persistent object", "a storage");
  const std::string& type = value(id.items[1]).text;
  if (std::find(std::begin(kStorages), std::end(kStorages), type) == std::end(kStorages)) {
    fail("a storage of type " + type, "torch FloatStorage, HalfStorage or BFloat16Storage");
  }
  push({.kind = Kind::storage, .items = id.items});
}

void Machine::reduce() {
  const PickleValue arguments = value(pop(Kind::tuple, "a tuple of arguments"));
  const std::string function = value(pop(Kind::global, "a function's name")).text;
  if (function == kTensor) return reduce_tensor(arguments);
  if (function == kParameter) return reduce_parameter(arguments);
  if (function != kOrderedDict) fail("a call of " + function, "a function of torch._utils");
  if (!arguments.items.empty()) {
    fail("OrderedDict with " + std::to_string(arguments.items.size()) + " arguments", "none");
  }
  push({.kind = Kind::dict, .ordered = true});
}

/// (storage, offset, sizes, strides, requires_grad, hooks[, metadata])
void Machine::reduce_tensor(const PickleValue& arguments) {
  const auto& items = arguments.items;
  if (items.size() != 6 && items.size() != 7) {
    fail("_rebuild_tensor_v2 with " + std::to_string(items.size()) + " arguments", "6 or 7");
  }
  constexpr Kind kKinds[] = {Kind::storage, Kind::integer, Kind::tuple, Kind::tuple,
                             Kind::boolean, Kind::dict,    Kind::none};
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (value(items[i]).kind != kKinds[i]) {
      fail("_rebuild_tensor_v2 with a wrong argument " + std::to_string(i + 1),
           "storage, offset, sizes, strides, requires_grad, hooks");
    }
  }
  push({.kind = Kind::tensor, .items = items});
}

/// (tensor, requires_grad, hooks): the tensor.
void Machine::reduce_parameter(const PickleValue& arguments) {
  const auto& items = arguments.items;
  if (items.size() != 3) fail("_rebuild_parameter with " + std::to_string(items.size()) + " arguments", "3");
  if (value(items[0]).kind != Kind::tensor || value(items[1]).kind != Kind::boolean ||
      value(items[2]).kind != Kind::dict) {
    fail("_rebuild_parameter with a wrong argument", "tensor, requires_grad, hooks");
  }
  stack_.push_back(items[0]);
}

/// A state_dict() carries its modules' versions as an attribute: read, and left out.
void Machine::build() {
  pop(Kind::dict, "a dict of attributes");
  const Place target = pop(Kind::dict, "an OrderedDict");
  if (!value(target).ordered) fail("attributes of a plain dict", "those of an OrderedDict");
  stack_.push_back(target);
}

void Machine::stop() {
  out_.root = pop();
  if (!stack_.empty() || !marks_.empty()) fail("values left on the stack at STOP", "one dict");
  stopped_ = true;
}

}  // namespace

Pickle parse_pickle(std::string_view bytes, const std::string& file) { return Machine(bytes, file).run(); }

}  // namespace kvscope
