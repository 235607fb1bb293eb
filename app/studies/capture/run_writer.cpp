#include "app/studies/capture/run_writer.h"

#include <memory>
#include <system_error>
#include <utility>

namespace kvscope::app {

void RunWriter::add(RunRecord run) {
  wait();
  const auto held = std::make_shared<const RunRecord>(std::move(run));
  const auto write = [this, held] {
    writer_.add(*held);
    return true;
  };
  try {
    background_.post(write);
  } catch (const std::system_error&) {  // no thread can be had
    write();
  }
}

void RunWriter::wait() {
  background_.wait();
  background_.take();
}

}  // namespace kvscope::app
