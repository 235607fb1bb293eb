// kvscope doctor: what this machine can do, one line a check, with a hint where something is missing.

#include <H5public.h>
#include <fontconfig/fontconfig.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "app/cli/arguments.h"
#include "app/cli/doctor_conformance.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/support/paths.h"
#include "app/support/usage.h"
#include "app/window/glfw_window.h"
#include "engine/core/protocol/events.h"
#include "engine/core/support/error.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

constexpr OptionSpec kDoctorOptions[] = {
    kEngineOption,
    {"conformance", "", "run the engine against the protocol (docs/protocol.md)"},
    {"model", "MODEL", "with --conformance: the model to load (the sample model)"},
    kGateOption,
    kDeviceOption,
    kDtypeOption,
    {"json", "", "one object: ok, checks"},
};

ordered_json check(const std::string& name, bool ok, const std::string& text, const std::string& hint = "") {
  const bool optional = name == "cuda";  // the CPU is a first-class back end: its absence is news, not a fault
  return {{"name", name}, {"ok", ok}, {"optional", optional}, {"text", text}, {"hint", ok ? "" : hint}};
}

ordered_json check_display() {
  try {
    const GlfwWindow window({.width = 64, .height = 64, .visible = false, .title = "kvscope doctor"});
    return check("display", true, window.description());
  } catch (const Error& error) {
    return check(
        "display", false, error.what(),
        "the window needs X11 and OpenGL 3.3; run, capture, figure, heads and all other commands work without a window");
  }
}

ordered_json check_disk() {
  std::error_code error;
  const auto space = std::filesystem::space(".", error);
  if (error) return check("disk", false, error.message(), "the working folder cannot be read");
  const std::string text = fixed_text(static_cast<double>(space.available) / 1e9, 1) + " GB free in the working folder";
  return check("disk", space.available > 1'000'000'000u, text, "traces of long runs need hundreds of megabytes");
}

ordered_json check_state() {
  const auto folder = state_folder();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  const bool is_well = !folder.empty() && !error && ::access(folder.c_str(), W_OK) == 0;
  return check("state", is_well, is_well ? folder.string() : folder.string() + " cannot be written",
               "set XDG_STATE_HOME to a writable folder");
}

ordered_json check_hdf5() {
  unsigned major = 0, minor = 0, release = 0;
  ::H5get_libversion(&major, &minor, &release);
  return check("hdf5", true, std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release));
}

ordered_json check_samples() {
  const auto model = sample_model();
  return check("samples", !model.empty(), model.empty() ? "the sample model was not found" : model.string(),
               "run from the source tree, or set KVSCOPE_SAMPLES");
}

// The file that fontconfig gives for a family, if it is of that family.
ordered_json check_font(FcConfig* config, const char* family) {
  FcPattern* pattern = FcNameParse(reinterpret_cast<const FcChar8*>(family));
  FcConfigSubstitute(config, pattern, FcMatchPattern);
  FcDefaultSubstitute(pattern);
  FcResult result;
  FcPattern* match = FcFontMatch(config, pattern, &result);
  FcChar8* found = nullptr;
  bool ok = false;
  std::string text = "not installed";
  if (match && FcPatternGetString(match, FC_FAMILY, 0, &found) == FcResultMatch) {
    ok = std::string(reinterpret_cast<const char*>(found)).find(family) != std::string::npos;
    if (ok && FcPatternGetString(match, FC_FILE, 0, &found) == FcResultMatch)
      text = reinterpret_cast<const char*>(found);
  }
  if (match) FcPatternDestroy(match);
  FcPatternDestroy(pattern);
  return check(std::string("font ") + family, ok, text,
               "apt install fonts-inter fonts-jetbrains-mono fonts-dejavu-core");
}

// With a configuration of our own: the library's default one leaves 288 bytes that nobody owns.
void add_font_checks(ordered_json& checks) {
  FcConfig* config = FcInitLoadConfigAndFonts();
  for (const char* family : {"Inter", "JetBrains Mono", "DejaVu Sans"}) checks.push_back(check_font(config, family));
  FcConfigDestroy(config);
  FcFini();
}

void add_engine_checks(const Arguments& arguments, ordered_json& checks) {
  try {
    EngineJob job(engine_options(arguments));
    checks.push_back(
        check("engine", true, (job.offer().recorder().empty() ? "kvscope-engine " : "") + job.greeting().engine));
    for (const auto& item : protocol::doctor_checks_from_event(job.call(protocol::DoctorRequest{}))) {
      checks.push_back(check(item.name, item.ok, item.text, item.hint));
    }
  } catch (const Error& error) {
    if (error.code() == ExitCode::cancelled) throw;
    checks.push_back(check("engine", false, error.what(), "build kvscope-engine, or give one with --engine"));
  }
}

int doctor(const Arguments& arguments) {
  if (arguments.has("conformance")) return doctor_conformance(arguments);
  for (const char* option : {"model", "gate"}) {
    if (arguments.has(option)) usage_error(dashed(option), "given without --conformance");
  }
  ordered_json checks = ordered_json::array();
  checks.push_back(check_display());
  add_font_checks(checks);
  checks.push_back(check_hdf5());
  checks.push_back(check_disk());
  checks.push_back(check_state());
  checks.push_back(check_samples());
  add_engine_checks(arguments, checks);

  bool all_ok = true;
  for (const auto& item : checks) all_ok &= item["ok"].get<bool>() || item["optional"].get<bool>();
  if (arguments.has("json")) {
    write_json_line(ordered_json{{"ok", all_ok}, {"checks", checks}});
  } else {
    for (const auto& item : checks) {
      const bool ok = item["ok"].get<bool>();
      const char* word = ok ? "ok     " : item["optional"].get<bool>() ? "absent " : "missing";
      std::printf("%s  %-20s %s\n", word, item["name"].get<std::string>().c_str(),
                  escape_for_terminal(item["text"].get<std::string>()).c_str());
      const std::string hint = item["hint"];
      if (!ok && !hint.empty()) std::printf("         %-20s hint: %s\n", "", escape_for_terminal(hint).c_str());
    }
  }
  return static_cast<int>(all_ok ? ExitCode::done : ExitCode::resource);
}

}  // namespace

extern const CommandSpec doctor_command = {
    "doctor",
    "[--engine COMMAND] [--conformance [--model MODEL]] [--json]",
    "check this machine, or whether an engine keeps the protocol",
    "Checks display and OpenGL, fonts, HDF5, disk, samples, the engine and its devices. Exit code 3 if something is "
    "missing. With --conformance, it runs an engine against the protocol instead: greeting, runs, cancel, errors, "
    "lifetimes, oracle, services. One line per check: ok, fails or not served. Exit code 3 if a check fails.",
    "  kvscope doctor\n"
    "  kvscope doctor --conformance --engine \"python -m kvscope.engine\" --model smollm2-135m",
    {0, 0},
    kDoctorOptions,
    doctor};

}  // namespace kvscope::app
