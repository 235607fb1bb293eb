#pragma once
// Where things are: this program, its samples and assets, the person's state.

#include <filesystem>
#include <string>
#include <vector>

namespace kvscope::app {

std::filesystem::path executable_folder();

/// The folder `name` ("samples", "assets") that came with the program: $KVSCOPE_SAMPLES or $KVSCOPE_ASSETS,
/// share/kvscope beside an installed bin, or the source tree this was built from. Empty if there is none.
std::filesystem::path shipped_folder(const std::string& name);
/// The English text that questions are put into where no other is given, empty if it is not there.
std::filesystem::path heldout_text();
/// The sample models that are there, kvscope-tiny first.
std::vector<std::filesystem::path> sample_models();
/// The first of them, empty if there is none.
std::filesystem::path sample_model();
/// The recorded run that a first window shows, empty if it is not there. Looked for once, as the prompts below.
const std::filesystem::path& first_run_trace();
/// The sample prompts (N-*.txt), in order of name: for models that talk, or those that the tiny sample was trained on. Looked
/// for once: they do not change while the program runs, and a window asks in every frame.
const std::vector<std::filesystem::path>& sample_prompts(bool chat = false);

/// $XDG_STATE_HOME/kvscope or ~/.local/state/kvscope, there or not. Empty if neither variable is set.
std::filesystem::path state_folder();
/// The same; throws Error (resource) if there is none, so that nothing is written to the working folder instead.
std::filesystem::path needed_state_folder();
/// $XDG_CONFIG_HOME/kvscope/settings.json or ~/.config/kvscope/settings.json, there or not. Empty if neither variable is set.
std::filesystem::path settings_file();

/// Where a file is saved that nobody has said a place for: the person's documents, else the home. Empty if there is neither.
std::filesystem::path documents_folder();

}  // namespace kvscope::app
