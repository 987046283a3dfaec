# Runs check_layers.cmake on small trees in WORK: one whose includes point downwards, and one fault each.
cmake_minimum_required(VERSION 3.25)

function(check out_status out_text)
  execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${WORK} -DLAYERS=${WORK}/layers.txt -P ${CHECK}
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE error)
  string(REGEX REPLACE "[ \n]+" " " text "${output}${error}")  # CMake wraps what it says
  set(${out_status} ${status} PARENT_SCOPE)
  set(${out_text} "${text}" PARENT_SCOPE)
endfunction()

function(expect_fault text)
  check(status said)
  string(FIND "${said}" "${text}" position)
  if(status EQUAL 0 OR position EQUAL -1)
    message(FATAL_ERROR "status ${status}, expected a fault that says\n  ${text}\ngot\n  ${said}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(WRITE ${WORK}/layers.txt "# bottom first\nbase/core\nbase/tools  # the second\n\ntop\n")
file(WRITE ${WORK}/base/core/shape.h "#pragma once\n#include <vector>\n")
file(WRITE ${WORK}/base/tools/list.h "#pragma once\n#include \"base/core/shape.h\"\n#include \"elsewhere/library.h\"\n")
file(WRITE ${WORK}/base/tools/list.cpp "#include \"base/tools/list.h\"\n")
file(WRITE ${WORK}/top/main.cpp "#include \"base/tools/list.h\"\n#include \"base/core/shape.h\"\n")
check(status said)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "a tree whose includes point downwards was refused: ${said}")
endif()

file(WRITE ${WORK}/base/core/shape.cpp "#include \"base/core/shape.h\"\n\nint x; // a; b\n#include \"base/tools/list.h\"\n")
expect_fault("base/core/shape.cpp:4: base/core includes base/tools, which stands above it: base/tools/list.h")
file(WRITE ${WORK}/base/core/shape.cpp "#include \"../tools/list.h\"\n")
expect_fault("base/core/shape.cpp:1: base/core includes base/tools, which stands above it: base/tools/list.h")
file(REMOVE ${WORK}/base/core/shape.cpp)

file(WRITE ${WORK}/base/new/thing.h "#pragma once\n")
expect_fault("base/new/thing.h: the folder base/new is not in")
file(REMOVE_RECURSE ${WORK}/base/new)

file(WRITE ${WORK}/tests/probe.h "#pragma once\n")
file(WRITE ${WORK}/top/main.cpp "#include \"tests/probe.h\"\n")
expect_fault("top/main.cpp:1: includes the folder tests, which is not in")
