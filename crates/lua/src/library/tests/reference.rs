//! `docs/reference/lua-api.md` lists every name of the libraries.

use super::vm;

const PAGE: &str = include_str!("../../../../../docs/reference/lua-api.md");
const BEGIN: &str = "<!-- names: written by the test `the_page_lists_every_name` -->\n";

/// The functions of each library, one line each: from the tables themselves.
const LIST: &str = "
local names, lines = ..., {}
local function functions(t)
  local found = {}
  for key, value in pairs(t) do
    if type(key) == 'string' and type(value) == 'function' then found[#found + 1] = '`' .. key .. '`' end
  end
  table.sort(found)
  return found
end
local function line(name, t)
  local found = functions(t)
  lines[#lines + 1] = '| `' .. name .. '` | ' .. (#found > 0 and table.concat(found, ', ') or 'constants') .. ' |'
end
line('ngx', ngx) line('ngx.config', ngx.config) line('ngx.re', ngx.re) line('ngx.worker', ngx.worker)
for _, name in ipairs(names) do line('require \"' .. name .. '\"', require(name)) end
return table.concat(lines, '\\n') .. '\\n'
";

#[test]
fn the_page_lists_every_name() {
    let lua = vm();
    let names: Vec<&str> = super::super::modules::MODULES.iter().map(|(name, _)| *name).collect();
    let list: String = lua.load(LIST).call(names).expect("every library loads");
    let (_, page) = PAGE.split_once(BEGIN).expect("the page has the section");
    let page = page.split_once("|---|---|\n").map_or("", |(_, rows)| rows);
    assert!(page == list, "docs/reference/lua-api.md: the rows after the marker have to be\n{list}");
}
