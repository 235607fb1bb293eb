#include "views/frame/item_registry.h"

namespace kvscope::views {

std::string ItemRegistry::Item::id() const {
  std::string id = prefix;
  if (i >= 0) id += "." + std::to_string(i);
  if (j >= 0) id += "." + std::to_string(j);
  return id;
}

std::optional<ItemRect> ItemRegistry::find(std::string_view id) const {
  for (const Item& item : items_) {
    if (id.starts_with(item.prefix) && item.id() == id) return item.rect;
  }
  return std::nullopt;
}

std::optional<std::string> ItemRegistry::text(std::string_view id) const {
  for (const auto& [name, text] : texts_) {
    if (name == id) return text;
  }
  return std::nullopt;
}

std::vector<std::string> ItemRegistry::ids() const {
  std::vector<std::string> ids;
  for (const Item& item : items_) ids.push_back(item.id());
  return ids;
}

}  // namespace kvscope::views
