#include "engine/core/support/standard_input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "engine/core/support/error.h"
#include "engine/core/support/file.h"

namespace kvscope {

std::string read_standard_input(std::size_t max_bytes) {
  constexpr std::size_t kStep = 1 << 16;
  std::string bytes;
  for (;;) {
    const std::size_t used = bytes.size();
    bytes.resize(used + kStep);
    const ssize_t n = ::read(STDIN_FILENO, bytes.data() + used, kStep);
    bytes.resize(used + (n > 0 ? static_cast<std::size_t>(n) : 0));
    if (n == 0) return bytes;
    if (bytes.size() > max_bytes) {
      throw Error({.file = "standard input",
                   .found = "more than " + std::to_string(max_bytes) + " bytes",
                   .expected = "no more than that, as for a file"});
    }
    if (n > 0 || errno == EINTR) continue;
    if (errno != EAGAIN) throw_errno(errno, "standard input", "cannot be read");
    pollfd more{STDIN_FILENO, POLLIN, 0};  // another program has set it not to block
    ::poll(&more, 1, -1);
  }
}

}  // namespace kvscope
