#include "engine/core/files/tokenizer/template_value.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace kvscope {
namespace {

using Value = TemplateValue;
using Kind = TemplateValue::Kind;

constexpr long kMaxNumber = 4'000'000'000'000'000'000;
constexpr int kMaxListDepth = 60;

Value of_kind(Kind kind) {
  Value v;
  v.kind = kind;
  return v;
}

}  // namespace

Value TemplateValue::none() { return of_kind(Kind::none); }
Value TemplateValue::of(bool truth) {
  Value v = of_kind(Kind::boolean);
  v.number = truth;
  return v;
}
Value TemplateValue::of(long number) {
  if (number > kMaxNumber || number < -kMaxNumber) template_fail("a number that is too large");
  Value v = of_kind(Kind::integer);
  v.number = number;
  return v;
}
Value TemplateValue::of(double number) {
  Value v = of_kind(Kind::real);
  v.fraction = number;
  return v;
}
Value TemplateValue::of(TemplateText text, TemplateBudget& budget) {
  budget.make(sizeof(Value) + sizeof(TemplateText) + 32 + 2 * text.text.size());
  Value v = of_kind(Kind::text);
  v.text = std::make_shared<const TemplateText>(std::move(text));
  return v;
}
Value TemplateValue::of(Kind kind, Items items, TemplateBudget& budget) {
  budget.make(sizeof(Value) * (1 + items.size()));
  Value v = of_kind(kind);
  for (const Value& item : items) v.depth = std::max(v.depth, item.depth + 1);
  if (v.depth > kMaxListDepth) template_fail("lists in lists that are too deep");
  v.items = std::make_shared<const Items>(std::move(items));
  if (kind == Kind::generator) v.is_used = std::make_shared<bool>(false);
  return v;
}
Value TemplateValue::function(Kind kind, std::string_view name) {
  Value v = of_kind(kind);
  v.text = std::make_shared<const TemplateText>(name, TemplateText::written);
  return v;
}

Value TemplateValue::from_json(const nlohmann::ordered_json& json, TemplateText::Origin origin,
                               TemplateBudget& budget) {
  budget.step();
  if (json.is_boolean()) return of(json.get<bool>());
  if (json.is_number_integer()) return of(json.get<long>());
  if (json.is_number()) return of(json.get<double>());
  if (json.is_string()) return of(TemplateText(json.get_ref<const std::string&>(), origin), budget);
  if (json.is_null()) return none();
  Items items;
  for (const auto& [key, item] : json.items()) {
    if (json.is_object()) items.push_back(of(TemplateText(key, origin), budget));
    items.push_back(from_json(item, origin, budget));
  }
  return of(json.is_object() ? Kind::dict : Kind::list, std::move(items), budget);
}

const Value* TemplateValue::find(const Value& key, TemplateBudget& budget) const {
  for (std::size_t i = 0; i < items->size(); i += 2) {
    if (template_equal((*items)[i], key, budget)) return &(*items)[i + 1];
  }
  return nullptr;
}

const Value* TemplateValue::find(std::string_view key) const {
  for (std::size_t i = 0; i < items->size(); i += 2) {
    if ((*items)[i].is_text(key)) return &(*items)[i + 1];
  }
  return nullptr;
}

const Value* TemplateArguments::get(std::size_t i, std::string_view name) const {
  if (i < n_plain()) return &values[i];
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) return nullptr;
  return &values[n_plain() + static_cast<std::size_t>(it - names.begin())];
}

bool TemplateArguments::flag(std::size_t i, std::string_view name, bool otherwise) const {
  const Value* value = get(i, name);
  return value ? template_truth(*value) : otherwise;
}

long TemplateArguments::integer(std::size_t i, std::string_view name, long otherwise) const {
  const Value* value = get(i, name);
  if (!value) return otherwise;
  if (!value->is(Kind::integer) && !value->is(Kind::boolean)) template_fail("an argument that is no whole number");
  return value->number;
}

void TemplateArguments::expect(std::size_t min, std::size_t max, std::initializer_list<std::string_view> known) const {
  if (values.size() < min || values.size() > max) template_fail("a wrong number of arguments");
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) template_fail("no argument " + name);
  }
}

bool template_truth(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.number != 0;
    case Kind::real:
      return value.fraction != 0;
    case Kind::text:
      return !value.str().empty();
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
    case Kind::dict:
      return !value.items->empty();
    default:
      return true;
  }
}

std::size_t template_length(const Value& value) {
  switch (value.kind) {
    case Kind::undefined:
      return 0;
    case Kind::text:
      return value.text->characters().size() - 1;
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      return value.items->size();
    case Kind::dict:
      return value.items->size() / 2;
    default:
      template_fail("the length of something that has none");
  }
}

Value::Items template_items(const Value& value, TemplateBudget& budget) {
  Value::Items items;
  switch (value.kind) {
    case Kind::undefined:
      return items;
    case Kind::generator:
      if (std::exchange(*value.is_used, true)) template_fail("a second loop over the same filter's values");
      [[fallthrough]];
    case Kind::list:
    case Kind::tuple:
    case Kind::view:
      budget.make(sizeof(Value) * value.items->size());
      return *value.items;
    case Kind::dict:
      for (std::size_t i = 0; i < value.items->size(); i += 2) items.push_back((*value.items)[i]);
      budget.make(sizeof(Value) * items.size());
      return items;
    case Kind::text: {
      const std::vector<std::size_t> at = value.text->characters();
      budget.make((sizeof(Value) + sizeof(TemplateText)) * at.size());
      for (std::size_t i = 0; i + 1 < at.size(); ++i) {
        items.push_back(Value::of(value.text->part(at[i], at[i + 1] - at[i]), budget));
      }
      return items;
    }
    default:
      template_fail("a loop over something that is no list");
  }
}

bool template_equal(const Value& a, const Value& b, TemplateBudget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) {
    return a.is(Kind::real) || b.is(Kind::real) ? a.real() == b.real() : a.number == b.number;
  }
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::text:
      budget.step(std::min(a.str().size(), b.str().size()));
      return a.str() == b.str();
    case Kind::list:
    case Kind::tuple:
      return std::equal(a.items->begin(), a.items->end(), b.items->begin(), b.items->end(),
                        [&](const Value& x, const Value& y) { return template_equal(x, y, budget); });
    case Kind::dict:
      if (a.items->size() != b.items->size()) return false;
      for (std::size_t i = 0; i < a.items->size(); i += 2) {
        const Value* other = b.find((*a.items)[i], budget);
        if (!other || !template_equal((*a.items)[i + 1], *other, budget)) return false;
      }
      return true;
    case Kind::space:
      return a.fields == b.fields;
    default:
      template_fail("== of values that are neither data nor namespaces");
  }
}

bool template_contains(const Value& all, const Value& one, TemplateBudget& budget) {
  budget.step();
  if (all.is_text()) {
    if (!one.is_text()) template_fail("in a text, with a left side that is not text");
    budget.step(all.str().size());
    return all.str().find(one.str()) != std::string::npos;
  }
  if (all.is(Kind::dict)) {
    if (one.is(Kind::list) || one.is(Kind::dict)) template_fail("in a dict, with a left side that is no key");
    return all.find(one, budget) != nullptr;
  }
  const Value::Items items = template_items(all, budget);
  return std::any_of(items.begin(), items.end(), [&](const Value& item) { return template_equal(item, one, budget); });
}

}  // namespace kvscope
