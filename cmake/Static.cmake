# With KVSCOPE_STATIC the window's libraries come from Debian's archives, so that one program runs on other distributions: what is
# never called (HDF5's network drivers, Cairo's X11 surfaces) stays out, and with it 40 libraries. Shared remain libc, X11, OpenGL
# and GLFW, which opens the former two when there is a display.
option(KVSCOPE_STATIC "Link the window's libraries from archives, for a program that runs on other distributions" OFF)

set(glyphs fontconfig freetype expat png16 brotlidec brotlicommon z)
set(archives_of_HDF5 hdf5 sz aec z)
set(archives_of_CAIRO cairo pixman-1 ${glyphs})
set(archives_of_FONTS ${glyphs})
set(archives_of_ZLIB z)
set(archives_of_UTF8PROC utf8proc)

# kvscope_archives(PREFIX KIND): what pkg_check_modules(PREFIX ...) found, from archives.
function(kvscope_archives prefix kind)
  if(NOT KVSCOPE_STATIC)
    return()
  endif()
  set(files "")
  foreach(name ${archives_of_${kind}})
    find_library(KVSCOPE_ARCHIVE_${name} NAMES lib${name}.a PATH_SUFFIXES hdf5/serial REQUIRED)
    list(APPEND files ${KVSCOPE_ARCHIVE_${name}})
  endforeach()
  set_target_properties(PkgConfig::${prefix} PROPERTIES INTERFACE_LINK_LIBRARIES "${files};${CMAKE_DL_LIBS}")
endfunction()
if(KVSCOPE_STATIC)
  # Not libgcc, whose archive asks for a newer glibc than the rest. The engine shares libstdc++ with LibTorch.
  set(KVSCOPE_STATIC_RUNTIME -static-libstdc++)
endif()
