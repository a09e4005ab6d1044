-- Redis runs Lua 5.1, with these libraries and without those that reach out of it.
std = {
  globals = {},
  read_globals = {
    "ipairs", "next", "pairs", "pcall", "select", "tonumber", "tostring", "type", "unpack",
    math = {fields = {"ceil", "floor", "log", "max", "min"}},
    string = {fields = {"byte", "char", "find", "format", "gmatch", "gsub", "lower", "match", "rep", "sub"}},
    table = {fields = {"concat", "insert", "remove", "sort"}},
    cjson = {fields = {"decode", "encode"}},
    redis = {fields = {"call", "pcall"}},
    "KEYS", "ARGV",
  },
}
max_line_length = 120

-- What an include declares is for the scripts.
files["include/*.lua"].ignore = {"211"}
