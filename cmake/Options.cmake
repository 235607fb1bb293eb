# kvscope_options: language, warnings, sanitizers. Every target of ours links it.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# -O3 costs a tenth more time to compile and gains nothing but in the CPU kernels, which ask for it themselves.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(KVSCOPE_CCACHE ccache)
if(KVSCOPE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KVSCOPE_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${KVSCOPE_CCACHE})
endif()
find_program(KVSCOPE_MOLD mold)
if(KVSCOPE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(kvscope_options INTERFACE)
target_include_directories(kvscope_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(kvscope_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-missing-field-initializers $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>>)
# Both programs read what strangers made: a bug in that must be hard to use. None of these flags changes a result.
add_link_options(-Wl,-z,relro,-z,now)
if(NOT KVSCOPE_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>)
  # Needs an optimiser, and has checks of its own under the sanitizers.
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE$<SEMICOLON>-D_FORTIFY_SOURCE=2>)
endif()
if(KVSCOPE_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${KVSCOPE_SANITIZE}> $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
  add_link_options(-fsanitize=${KVSCOPE_SANITIZE})
  if(KVSCOPE_SANITIZE MATCHES undefined)
    # Undefined behaviour ends the program: a line in the output of a test that passes would not be seen.
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=undefined>)
  endif()
endif()
if(KVSCOPE_FUZZ)
  # Feedback for libFuzzer from every file; tests/fuzz links its main.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()

# kvscope_cold(TARGET): code whose time goes into other libraries, which -O1 compiles a fifth faster than -O2.
function(kvscope_cold target)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
endfunction()

# kvscope_unity(TARGET [APART SOURCES...]): compiles eight sources as one, which halves the time: what they include is parsed and
# instantiated once. Names in anonymous namespaces must then differ within the library, except in the files that are kept apart.
function(kvscope_unity target)
  cmake_parse_arguments(ARG "" "" "APART" ${ARGN})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${KVSCOPE_UNITY} UNITY_BUILD_BATCH_SIZE 8)
  list(TRANSFORM ARG_APART PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_source_files_properties(${ARG_APART} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
