"""What makes a folder a voice that the server can load: `voice.json`, its frontend's file and a model that fit each other."""
