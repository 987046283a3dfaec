# zerolab_layers: the build fails on an include that points upwards. Runs when a source or the order has changed.
set(order ${PROJECT_SOURCE_DIR}/cmake/layers.txt)
set(check ${PROJECT_SOURCE_DIR}/cmake/check_layers.cmake)
set(sources "")
foreach(top framework optim models zero data checkpoint examples apps)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${top}/*.h ${PROJECT_SOURCE_DIR}/${top}/*.cpp
       ${PROJECT_SOURCE_DIR}/${top}/*.cu)
  list(APPEND sources ${found})
endforeach()
set(stamp ${PROJECT_BINARY_DIR}/layers.stamp)
add_custom_command(OUTPUT ${stamp}
                   COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DLAYERS=${order} -P ${check}
                   COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
                   DEPENDS ${sources} ${order} ${check}
                   COMMENT "Checking that includes point downwards")
add_custom_target(zerolab_layers DEPENDS ${stamp})
