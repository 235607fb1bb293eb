#pragma once
// What a view needs of the window besides the runs.

#include <functional>

#include "views/frame/item_registry.h"
#include "views/frame/texture.h"
#include "views/frame/theme.h"

namespace kvscope::views {

/// Owned by the window, and outlives every view.
struct ViewServices {
  TextureBackend* textures = nullptr;  // never null
  ItemRegistry* items = nullptr;       // never null
  const Theme* theme = nullptr;        // never null; the theme may change between frames
  std::function<void()> wake;          // another frame, please; from any thread. May be empty
};

}  // namespace kvscope::views
