#include "app/conformance/checks.h"

#include <utility>

namespace kvscope::app::conformance {

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw Failure(otherwise);
}

void Checks::note(Check check) {
  checks_.push_back(std::move(check));
  if (on_check_) on_check_(checks_.back());
}

bool Checks::check(const std::string& name, const std::function<std::string()>& body) {
  try {
    note({name, Outcome::ok, body()});
    return true;
  } catch (const NotServed& reason) {
    note({name, Outcome::not_served, reason.what()});
  } catch (const EndOfSuite& reason) {
    note({name, Outcome::fails, std::string(reason.what()) + ". The remaining checks did not run."});
    throw;
  } catch (const std::exception& reason) {  // a Failure, or the Error of a reader that refused a message
    note({name, Outcome::fails, reason.what()});
  }
  return false;
}

}  // namespace kvscope::app::conformance
