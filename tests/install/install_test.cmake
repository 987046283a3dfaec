# Builds tests/install in WORK and runs it: with ZEROLAB_BUILD against the libraries installed from there, else against
# the sources in ZEROLAB_FOLDER.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGN}: status ${status}\n${output}")
  endif()
endfunction()

set(options -G Ninja -DCMAKE_BUILD_TYPE=Release)
if(ZEROLAB_BUILD)
  file(REMOVE_RECURSE ${WORK})
  run(${CMAKE_COMMAND} --install ${ZEROLAB_BUILD} --prefix ${WORK}/installed)
  # Nothing of the sources is left to be found by chance, and the package may be moved.
  file(RENAME ${WORK}/installed ${WORK}/moved)
  list(APPEND options -DCMAKE_PREFIX_PATH=${WORK}/moved)
else()
  list(APPEND options -DZEROLAB_FOLDER=${ZEROLAB_FOLDER} -DCMAKE_UNITY_BUILD=ON)
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build ${options})
run(${CMAKE_COMMAND} --build ${WORK}/build --target outside)
run(${WORK}/build/outside)
