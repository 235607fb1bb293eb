#pragma once
// The last source of every font: any character that the fonts before it lack, from whatever font of the machine has it,
// emoji in their colours. One that no font has becomes a frame with its number.

struct ImFontLoader;

namespace kvscope::views {

/// Draws characters when they are first seen, tenths of a millisecond each. Fonts are those that fontconfig knows, in its
/// order for sans serif, and those in $KVSCOPE_FONTS.
const ImFontLoader* machine_font();

/// Looks for the machine's fonts, which takes tens of milliseconds, so that the first character does not have to wait for
/// it. From any thread.
void find_machine_fonts();

}  // namespace kvscope::views
