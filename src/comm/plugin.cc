#include "comm/plugin.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tutti {
namespace {

// Of the shared library or program that holds this code.
std::filesystem::path own_folder() {
  Dl_info info{};
  static const char kHere = 0;
  if (::dladdr(&kHere, &info) == 0 || !info.dli_fname) return {};
  std::error_code error;
  // A program without a path in its name was found by PATH.
  const bool named = std::string_view(info.dli_fname).find('/') != std::string_view::npos;
  const auto file = std::filesystem::canonical(named ? info.dli_fname : "/proc/self/exe", error);
  return error ? std::filesystem::path() : file.parent_path();
}

Result<void*> load(std::string_view name) {
  const std::string file = fmt::format("libtutti_{}.so", name);
  std::vector<std::string> candidates;
  if (const auto folder = own_folder(); !folder.empty())
    for (const auto& path : {folder / file, folder.parent_path() / "lib" / file})
      if (::access(path.c_str(), F_OK) == 0) candidates.push_back(path.string());
  candidates.push_back(file);
  // Lazily, so that a plug-in whose own library is old may still say what it lacks.
  if (void* handle = ::dlopen(candidates.front().c_str(), RTLD_LAZY | RTLD_LOCAL)) return handle;
  return fail(tuttiSystemError, "the plug-in {} cannot be loaded ({})", file, ::dlerror());
}

}  // namespace

Result<void*> plugin_symbol(std::string_view name, const char* symbol) {
  TUTTI_TRY_ASSIGN(void* handle, load(name));
  if (void* found = ::dlsym(handle, symbol)) return found;
  return fail(tuttiSystemError, "the plug-in libtutti_{}.so is of another version: it has no {}", name, symbol);
}

}  // namespace tutti
