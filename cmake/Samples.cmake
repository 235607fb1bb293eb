# The weights of the sample models, kvscope-tiny's scorers and the gates of larger models come packed, two thirds of their size, and
# lie unpacked where programs, tests and people look for them.

# Unpacks `folder`-weights.tar.xz into `folder` if it is newer than one of the files, or if one is missing. Each is renamed into
# place in one piece: another build's window may have the old file mapped.
function(kvscope_unpack folder)
  set(packed ${folder}-weights.tar.xz)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${packed} ${ARGN})  # whichever changes or goes
  set(is_old FALSE)
  foreach(file ${ARGN})
    if(${packed} IS_NEWER_THAN ${file})  # also where there is none
      set(is_old TRUE)
    endif()
  endforeach()
  if(NOT is_old)
    return()
  endif()
  file(ARCHIVE_EXTRACT INPUT ${packed} DESTINATION ${folder}/unpacking TOUCH)
  file(GLOB_RECURSE unpacked RELATIVE ${folder}/unpacking ${folder}/unpacking/*)
  foreach(name ${unpacked})
    file(RENAME ${folder}/unpacking/${name} ${folder}/${name})
  endforeach()
  file(REMOVE_RECURSE ${folder}/unpacking)
endfunction()

foreach(model kvscope-tiny kvscope-reasoner)
  kvscope_unpack(${CMAKE_SOURCE_DIR}/samples/models/${model} ${CMAKE_SOURCE_DIR}/samples/models/${model}/model.safetensors)
endforeach()
foreach(model smollm2-135m kvscope-reasoner)
  set(folder ${CMAKE_SOURCE_DIR}/samples/gates/${model})
  file(GLOB gates ${folder}/*/gate.json)
  list(TRANSFORM gates REPLACE "gate.json$" "gate.safetensors")
  kvscope_unpack(${folder} ${gates})
endforeach()
# Both models read with one tokenizer.
configure_file(${CMAKE_SOURCE_DIR}/samples/models/kvscope-tiny/tokenizer.json
               ${CMAKE_SOURCE_DIR}/samples/models/kvscope-reasoner/tokenizer.json COPYONLY)
