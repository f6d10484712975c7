
# Names of servers, tools and arguments come from tsugi itself.
complete -c tsugi -f -n "__fish_seen_subcommand_from call tools prompt doctor logs restart remove" \
    -a "(tsugi --quiet complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)"
