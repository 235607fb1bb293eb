#pragma once

#include <string>

namespace kvscope {

/// A number as the window and figures have it: a minus is as wide as a plus, a hyphen is not.
inline std::string with_minus(std::string number) {
  return number.starts_with('-') ? number.replace(0, 1, "−") : number;
}

}  // namespace kvscope
