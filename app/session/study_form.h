#pragma once
// What a study can be asked for in the window: the arguments of its command, as the command line declares them. A new option of
// such a command is a new field of its form.

#include <map>
#include <string>
#include <vector>

namespace kvscope::app {

struct StudyField {
  std::string name;   // "texts"; of an argument without a name what the command's synopsis calls it: "MODEL"
  std::string value;  // "N", "FILE", "on|off"; empty: a switch
  std::string help;
  bool is_positional = false;
  bool repeats = false;  // one value a line
  bool is_main = false;  // shown at once; the others under "All options"
};

struct StudyForm {
  std::string command;       // "sweep"
  std::string title;         // "Sweep"
  std::string summary;       // a sentence
  std::string service = {};  // that its engine must serve (engine_offer.h)
  std::string policy = {};   // of KVScope's, as text, that its engine must run; empty: those that the study names
  std::vector<StudyField> fields = {};

  const StudyField* field(const std::string& name) const;
};

/// By field; a switch that is on has "on", what is not there was not given.
using StudyValues = std::map<std::string, std::string>;

/// Whether a field names a file or folder.
bool is_path(const StudyField& field);
/// The words after "kvscope": command, arguments, options in the form's order. Throws Error (usage) for a missing argument or
/// output file, and for a value that the form does not have.
std::vector<std::string> study_words(const StudyForm& form, const StudyValues& values);

}  // namespace kvscope::app
