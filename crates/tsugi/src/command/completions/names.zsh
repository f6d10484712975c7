
# Names of servers, tools and arguments come from tsugi itself.
_tsugi_names() {
    local -a names
    names=(${(f)"$(tsugi --quiet complete -- ${words[2,CURRENT]} 2>/dev/null)"})
    if (( $#names )); then compadd -Q -S '' -- $names; else _tsugi "$@"; fi
}
compdef _tsugi_names tsugi
