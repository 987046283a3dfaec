# Writes OUT, a source with the commit of SOURCE; "unknown" where that is no checkout, as in an archive. It runs at every
# build, and leaves the file alone where nothing has changed.
set(commit unknown)
find_package(Git QUIET)
if(Git_FOUND AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT_EXECUTABLE} --no-optional-locks describe --always --abbrev=40 --exclude=* --dirty
                  WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(described)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#include \"apps/train_gpt/metrics/version.h\"

namespace zerolab::app {

const char* const kCommit = \"${commit}\";

}  // namespace zerolab::app
")
