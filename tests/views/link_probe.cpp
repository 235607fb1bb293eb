// A view that reads what is not a view's: it compiles, and must not link.

#include <nlohmann/json.hpp>

#include "engine/core/files/gate/gate_file.h"
#include "engine/core/files/tokenizer/tokenizer.h"
#include "engine/core/protocol/channel.h"

int main() {
  kvscope::Channel(0, 1).read();
  kvscope::load_gate("gate");
  kvscope::Tokenizer::load("model");
}
