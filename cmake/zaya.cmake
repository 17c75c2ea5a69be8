# Build rules shared by all folders.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

# Contraction to fused multiply-add stays off so that instruction sets give equal bits.
add_library(zaya_options INTERFACE)
target_include_directories(zaya_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(zaya_options INTERFACE -ffp-contract=off -Wall -Wextra -Wshadow -Wconversion
                       -Wno-sign-conversion -Wundef -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(zaya_options INTERFACE -Wno-implicit-int-float-conversion
                         -Wno-missing-braces -Wno-shorten-64-to-32)
endif()
if(ZAYA_WERROR)
  target_compile_options(zaya_options INTERFACE -Werror)
endif()
if(ZAYA_CHECKED)
  target_compile_definitions(zaya_options INTERFACE ZAYA_CHECKED _GLIBCXX_ASSERTIONS)
endif()
if(ZAYA_SANITIZE)
  target_compile_options(zaya_options INTERFACE -fsanitize=${ZAYA_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(zaya_options INTERFACE -fsanitize=${ZAYA_SANITIZE})
endif()
target_link_libraries(zaya_options INTERFACE Threads::Threads)

# zaya_library(NAME SOURCES a.cc ... DEPENDS base ... LIBRARIES fmt ...): static library zaya_NAME.
# DEPENDS names folders and is public; LIBRARIES are third-party and private.
function(zaya_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(zaya_${name} STATIC ${arg_SOURCES})
  target_link_libraries(zaya_${name} PUBLIC zaya_options)
  foreach(dependency ${arg_DEPENDS})
    target_link_libraries(zaya_${name} PUBLIC zaya_${dependency})
  endforeach()
  target_link_libraries(zaya_${name} PRIVATE fmt::fmt ${arg_LIBRARIES})
endfunction()

# zaya_test(NAME [SLOW] SOURCES a_test.cc ... DEPENDS base ... LIBRARIES ...): program
# zaya_NAME_test and the ctest entry NAME. With SLOW the doctest suite "slow" runs as the entry
# NAME.slow with the label slow.
function(zaya_test name)
  cmake_parse_arguments(arg "SLOW" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  if(NOT ZAYA_TESTS)
    return()
  endif()
  add_executable(zaya_${name}_test ${arg_SOURCES} ${PROJECT_SOURCE_DIR}/tests/test_main.cc)
  target_include_directories(zaya_${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  # tests/data of the source tree; tests write below the build tree only.
  target_compile_definitions(zaya_${name}_test PRIVATE
    ZAYA_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
    ZAYA_SHARED_FIXTURES="${PROJECT_SOURCE_DIR}/../shared/fixtures")
  foreach(dependency ${arg_DEPENDS})
    target_link_libraries(zaya_${name}_test PRIVATE zaya_${dependency})
  endforeach()
  target_link_libraries(zaya_${name}_test PRIVATE zaya_base fmt::fmt ${arg_LIBRARIES})
  add_test(NAME ${name} COMMAND zaya_${name}_test --test-suite-exclude=slow)
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
  if(arg_SLOW)
    add_test(NAME ${name}.slow COMMAND zaya_${name}_test --test-suite=slow)
    set_tests_properties(${name}.slow PROPERTIES TIMEOUT 1800 LABELS slow)
  endif()
endfunction()
