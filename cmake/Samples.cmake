# The weights of the sample model come packed, two thirds of their size, and lie unpacked where programs, tests and people look
# for them. Renamed into place in one piece: another build's window may have the old file mapped.
set(folder ${CMAKE_SOURCE_DIR}/samples/models/kvscope-tiny)
set(packed ${folder}-weights.tar.xz)
set(weights ${folder}/model.safetensors)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${packed} ${weights})  # whichever changes or goes
if(${packed} IS_NEWER_THAN ${weights})  # also where there are none
  file(ARCHIVE_EXTRACT INPUT ${packed} DESTINATION ${folder}/unpacking TOUCH)
  file(RENAME ${folder}/unpacking/model.safetensors ${weights})
  file(REMOVE_RECURSE ${folder}/unpacking)
endif()
