# Writes OUT, a C++ source with the report's page: page.html with style, charts and script put into it.
# Run with -DFOLDER= (of page.html) -DCHART= (Chart.js, minified) -DOUT=.
file(READ "${FOLDER}/page.html" page)
foreach(part style.css page.js chart)
  if(part STREQUAL "chart")
    file(READ "${CHART}" text)
  else()
    file(READ "${FOLDER}/${part}" text)
  endif()
  if(text MATCHES "</(script|style)")
    message(FATAL_ERROR "${part} would end the element that it is put into")
  endif()
  string(REPLACE "{{${part}}}" "${text}" page "${page}")
endforeach()
file(WRITE "${OUT}" "#include \"apps/train_gpt/report/report_page.h\"

namespace zerolab::app {

const std::string_view kReportTemplate = R\"zerolab(${page})zerolab\";

}  // namespace zerolab::app
")
