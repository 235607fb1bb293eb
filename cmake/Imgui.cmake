# kvscope_imgui: Dear ImGui with docking and its back ends for GLFW and OpenGL, from the sources that ./setup fetched.
set(KVSCOPE_IMGUI "" CACHE PATH "Folder of Dear ImGui's sources, 1.93, docking branch")
if(NOT EXISTS "${KVSCOPE_IMGUI}/imgui.h")
  message(FATAL_ERROR "Dear ImGui's sources are not in KVSCOPE_IMGUI='${KVSCOPE_IMGUI}'. Run ./setup, which fetches them.")
endif()
add_library(kvscope_imgui STATIC
  "${KVSCOPE_IMGUI}/imgui.cpp"
  "${KVSCOPE_IMGUI}/imgui_draw.cpp"
  "${KVSCOPE_IMGUI}/imgui_stacklayout.cpp"
  "${KVSCOPE_IMGUI}/imgui_tables.cpp"
  "${KVSCOPE_IMGUI}/imgui_widgets.cpp"
  "${KVSCOPE_IMGUI}/backends/imgui_impl_glfw.cpp"
  "${KVSCOPE_IMGUI}/backends/imgui_impl_opengl3.cpp"
  "${KVSCOPE_IMGUI}/misc/cpp/imgui_stdlib.cpp")
target_include_directories(kvscope_imgui SYSTEM PUBLIC "${KVSCOPE_IMGUI}")
target_compile_definitions(kvscope_imgui PUBLIC IMGUI_DISABLE_OBSOLETE_FUNCTIONS IMGUI_USE_WCHAR32)
target_compile_options(kvscope_imgui PRIVATE -w)
pkg_check_modules(IMGUI_GLFW REQUIRED IMPORTED_TARGET GLOBAL glfw3)
target_link_libraries(kvscope_imgui PUBLIC PkgConfig::IMGUI_GLFW ${CMAKE_DL_LIBS})
