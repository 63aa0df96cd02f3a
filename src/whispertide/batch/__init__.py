"""Archives: many recordings to one transcript each, by many workers; a killed run can be continued.

    inputs      names of files, folders, patterns, addresses and manifests -> recordings
    plan        recordings -> which transcript each becomes
    archive     the folder of transcripts: what is there, what made it, and the report
    worker      one model, one recording at a time -> the text of its transcript
    dispatch    which worker gets which recording, and what happens when one dies
    local       workers as processes of this machine
    on_ray      workers as Ray actors

Only `archive` writes, in the process that was started. A worker gives back text, so a worker that is killed leaves
nothing half done, and workers on other machines need no shared folder for transcripts.
"""
