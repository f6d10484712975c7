
# Names of servers, tools and arguments come from tsugi itself.
_tsugi_names() {
    local names
    names=$(tsugi --quiet complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [[ -n $names ]]; then
        local IFS=$'\n'
        COMPREPLY=($names)
        if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
        return 0
    fi
    _tsugi "$@"
}
complete -F _tsugi_names -o bashdefault -o default tsugi
