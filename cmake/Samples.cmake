# The weights of the sample models, and kvscope-tiny's scorers, come packed, two thirds of their size, and lie unpacked where
# programs, tests and people look for them. Renamed into place in one piece: another build's window may have the old file mapped.
foreach(model kvscope-tiny kvscope-reasoner)
  set(folder ${CMAKE_SOURCE_DIR}/samples/models/${model})
  set(packed ${folder}-weights.tar.xz)
  set(weights ${folder}/model.safetensors)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${packed} ${weights})  # whichever changes or goes
  if(${packed} IS_NEWER_THAN ${weights})  # also where there are none
    file(ARCHIVE_EXTRACT INPUT ${packed} DESTINATION ${folder}/unpacking TOUCH)
    file(GLOB unpacked ${folder}/unpacking/*)
    foreach(file ${unpacked})
      cmake_path(GET file FILENAME name)
      file(RENAME ${file} ${folder}/${name})
    endforeach()
    file(REMOVE_RECURSE ${folder}/unpacking)
  endif()
endforeach()
# Both models read with one tokenizer.
configure_file(${CMAKE_SOURCE_DIR}/samples/models/kvscope-tiny/tokenizer.json
               ${CMAKE_SOURCE_DIR}/samples/models/kvscope-reasoner/tokenizer.json COPYONLY)
