# `cmake --install` and CPack's .deb: programs and samples (the component that a wheel takes), desktop file, icon, man page,
# completions.
include(GNUInstallDirs)
if(TARGET kvscope)
  install(TARGETS kvscope RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(DIRECTORY samples/gates samples/prompts samples/recipes samples/traces
          DESTINATION ${CMAKE_INSTALL_DATADIR}/kvscope/samples COMPONENT program PATTERN __pycache__ EXCLUDE
          PATTERN "*-weights.tar.xz" EXCLUDE PATTERN pack EXCLUDE)
  install(DIRECTORY samples/models/kvscope-tiny samples/models/kvscope-reasoner
          DESTINATION ${CMAKE_INSTALL_DATADIR}/kvscope/samples/models COMPONENT program)
  # For --engine hf. A wheel has these modules as its package.
  install(DIRECTORY engine/python/kvscope DESTINATION ${CMAKE_INSTALL_DATADIR}/kvscope/engine/python
          PATTERN __pycache__ EXCLUDE)
  install(FILES assets/kvscope.desktop DESTINATION ${CMAKE_INSTALL_DATADIR}/applications)
  install(FILES assets/kvscope.svg DESTINATION ${CMAKE_INSTALL_DATADIR}/icons/hicolor/scalable/apps)
  # The program writes its own manual and completions, from the tables that --help and the parser use.
  install(CODE "
    set(share \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
    set(files man/man1/kvscope.1 bash-completion/completions/kvscope zsh/vendor-completions/_kvscope
              fish/vendor_completions.d/kvscope.fish)
    set(commands manual \"completions bash\" \"completions zsh\" \"completions fish\")
    foreach(file command IN ZIP_LISTS files commands)
      separate_arguments(words UNIX_COMMAND \"\${command}\")
      get_filename_component(folder \"\${share}/\${file}\" DIRECTORY)
      file(MAKE_DIRECTORY \"\${folder}\")
      execute_process(COMMAND \"$<TARGET_FILE:kvscope>\" \${words} OUTPUT_FILE \"\${share}/\${file}\" COMMAND_ERROR_IS_FATAL ANY)
    endforeach()
    execute_process(COMMAND gzip -9nf \"\${share}/man/man1/kvscope.1\" COMMAND_ERROR_IS_FATAL ANY)")
endif()
if(TARGET kvscope-engine)
  # In a wheel LibTorch is the package torch beside ours. Elsewhere KVSCOPE_TORCH names its folder.
  set_target_properties(kvscope-engine PROPERTIES INSTALL_RPATH "$ORIGIN/../../torch/lib")
  install(TARGETS kvscope-engine RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
install(FILES LICENSE NOTICE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "KVScope <kvscope@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Shows which tokens a language model keeps in its KV cache")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "fontconfig-config, fonts-inter, fonts-jetbrains-mono, fonts-dejavu-core, libgl1")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-venv")
include(CPack)
