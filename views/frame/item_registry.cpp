#include "views/frame/item_registry.h"

#include <algorithm>

namespace kvscope::views {

std::string ItemRegistry::Item::id() const {
  std::string id = prefix;
  if (i >= 0) id += "." + std::to_string(i);
  if (j >= 0) id += "." + std::to_string(j);
  return id;
}

void ItemRegistry::set_scope(const std::string& scope) {
  const auto known = std::ranges::find(scopes_, scope);
  scope_ = static_cast<std::size_t>(known - scopes_.begin());
  if (known == scopes_.end()) scopes_.push_back(scope);
}

std::optional<ItemRect> ItemRegistry::find(std::string_view id) const {
  for (const Item& item : items_) {
    const std::string& scope = scopes_[item.scope];
    if (!id.starts_with(scope)) continue;
    const std::string_view rest = id.substr(scope.size());
    if (rest.starts_with(item.prefix) && item.id() == rest) return item.rect;
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
  for (const Item& item : items_) ids.push_back(scopes_[item.scope] + item.id());
  return ids;
}

}  // namespace kvscope::views
